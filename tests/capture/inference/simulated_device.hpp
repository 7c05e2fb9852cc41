#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/Stream.h>

namespace keyscope::test {

// Two devices that LibTorch takes for accelerators (its PrivateUse1), made of the host's memory and of its
// kernels, so that what is asked of GPUs can be asked anywhere. They do whatever a GPU may do:
//   - a copy that need not be waited for is made when somebody comes to need it, from what lies there by
//   then;
//   - new memory holds NaN, and so does what is given back;
//   - an operation whose tensors lie in different places fails;
//   - an operation that did not wait for another stream's which it depends on is listed in Streams::finish().
// Operations themselves are done at once, in the order in which they are asked for.
//   for the whole process, from the first call on
const std::vector<at::Device>& simulated_devices();

// What simulated devices have done.
struct SimulatedWork {
  std::int64_t late_copies = 0;  // made after they were asked for
  std::set<std::string> races;   // operations that did not wait for another stream's
};

using Place = std::pair<c10::DeviceIndex, c10::StreamId>;  // a stream of a device
using Clock = std::map<Place, std::int64_t>;  // how far each stream has come, or is known to have

// A tensor's memory as an operation uses it.
struct Touch {
  const c10::StorageImpl* memory;
  bool writes;
};

// The streams of simulated devices: the copies that are yet to be made, and who knows of what. An operation
// may read what another stream has written, and write what it has read or written, only where something made
// it wait for that: an event, or the thread that asks for it.
class Streams {
 public:
  static Streams& all();

  // What a stream knows by now, itself included: this is an event.
  Clock now(const Place& place);
  // What `place` is asked for from now on comes after the event.
  void hold_back(const Place& place, const Clock& event);
  // This thread goes on after the event, or after all that was asked of a stream or of a device.
  void wait(const Clock& event);
  void wait(const Place& place) { wait(now(place)); }
  void wait(c10::DeviceIndex device);
  bool waited_for(const Clock& event);  // by this thread

  // The stream begins an operation: what it was asked for before, and what it was held back for, is done
  // first.
  void begin(const Place& place, const std::string& operation, const std::vector<Touch>& touched);
  // A copy, which is made when somebody comes to need it.
  void ask(const Place& place, const std::vector<Touch>& touched, std::function<void()> copy);

  // Memory goes to the stream that asks for it. What comes back is handed out again to the same stream, at
  // the earliest at its next allocation, which is where it is looked at.
  void take(const Place& owner, const c10::StorageImpl* memory);
  void give_back(const Place& owner, const c10::StorageImpl* memory);

  c10::StreamId fresh();

  // Waits for everything; what was done since the last time.
  SimulatedWork finish();

 private:
  struct Touched {
    Clock written, read;
  };
  struct Late {
    Clock known;  // what it comes after
    std::function<void()> copy;
  };
  struct Stream {
    Clock known;
    std::map<std::int64_t, Late> late;  // by the stream's own time
    Touched free;                       // what was done with memory that came back
  };

  Clock& host();
  void go_on(const Place& place);
  void touch(const Place& place, const std::string& operation, const std::vector<Touch>& touched);
  void make(const Clock& event);
  void check(const Place& place, const Clock& touched, const std::string& what);

  std::recursive_mutex mutex_;  // a copy that is made may give memory back
  std::map<Place, Stream> streams_;
  std::map<const c10::StorageImpl*, Touched> memory_;
  c10::StreamId latest_ = 0;
  std::int64_t epoch_ = 0;  // how often everything was waited for
  SimulatedWork work_;
};

}  // namespace keyscope::test
