#pragma once

#include <functional>
#include <memory>
#include <optional>

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

namespace keyscope::capture {

// A moment in what a device does. The CPU does what it is asked at once: there, every moment is past.
class DeviceMoment {
 public:
  DeviceMoment() = default;  // past

  // When the device has done what this thread has asked of it until now.
  static DeviceMoment of(at::Device device);

  // Returns when it is past.
  void wait() const;
  // The device does what this thread asks of it from now on when it is past; the thread goes on.
  void hold_back(at::Device device) const;

 private:
  friend class SideStream;
  static DeviceMoment of(const c10::Stream& stream);

  std::shared_ptr<c10::Event> event_;
};

// What a device does beside that which computes: copies from and to it.
class SideStream {
 public:
  explicit SideStream(at::Device device);

  // Asks for what `work` asks the device for, to be done beside the rest once `after` is past.
  //   returns when it is done
  DeviceMoment run(const DeviceMoment& after, const std::function<void()>& work) const;

 private:
  std::optional<c10::Stream> stream_;  // none on the CPU
};

}  // namespace keyscope::capture
