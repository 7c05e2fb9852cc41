#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/Stream.h>

#include "tests/capture/inference/simulated_device.hpp"

namespace keyscope::test {

using Place = std::pair<c10::DeviceIndex, c10::StreamId>;  // a stream of a device
using Clock = std::map<Place, std::int64_t>;  // how far each stream has come, or is known to have

// The streams of simulated devices: the copies that are yet to be made, and who knows of what. An operation
// may touch what another stream has touched only where something made it wait for that one.
class Streams {
 public:
  static Streams& all();

  // An event holds what a stream knows by then, itself included.
  Clock now(const Place& place);
  // What `place` is asked for from now on comes after the event.
  void hold_back(const Place& place, const Clock& event);
  // The host goes on after the event, after all that was asked of a stream, or of a device.
  void wait(const Clock& event);
  void wait(const Place& place) { wait(now(place)); }
  void wait(c10::DeviceIndex device);
  bool known_to_host(const Clock& event);

  // The stream takes up an operation: what it was asked for before is done first.
  void begin(const Place& place);
  // A copy that is made when somebody waits for it.
  void ask(const Place& place, std::function<void()> copy);

  // What the operation that `place` is at does with somebody's memory.
  void read(const Place& place, const c10::StorageImpl* memory);
  void write(const Place& place, const c10::StorageImpl* memory);
  // Memory that came back may be given to the stream that took it when it next takes some.
  void take(const Place& owner, const c10::StorageImpl* memory);
  void give_back(const Place& owner, const c10::StorageImpl* memory);

  c10::StreamId from_pool();
  SimulatedWork work();

 private:
  struct Touched {
    Clock written, read;
  };
  struct Stream {
    Clock known;
    std::deque<std::pair<std::int64_t, std::function<void()>>> late;  // by the stream's own time
    Touched free;  // what was done with memory that it took and that came back
  };

  void make(const Place& place, std::int64_t time);
  void check(const Place& place, const Clock& touched, const char* what);

  std::mutex mutex_;
  std::map<Place, Stream> streams_;
  Clock host_;
  std::map<const c10::StorageImpl*, Touched> memory_;
  c10::StreamId latest_ = 0;
  SimulatedWork work_;
};

}  // namespace keyscope::test
