#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

namespace keyscope::capture {

// What a device does while the host goes on. The CPU does what it is asked at once: there, every moment is
// past, and nothing is waited for.

// A moment in what a device does.
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

// A tensor on its way to the host, beside what the device computes.
class HostCopy {
 public:
  HostCopy() = default;  // of nothing
  // Begins when the device has done all that was asked of it. The tensor is kept until the copy goes.
  HostCopy(const at::Tensor& tensor, const SideStream& stream);

  at::Tensor arrived() const;  // contiguous; waits for it

 private:
  at::Tensor source_, host_;
  DeviceMoment arrival_;
};

// Time that was spent on something, again and again: by the host's clock, or on a device by its own, as the
// host is long gone on when the device comes to it.
class WorkTime {
 public:
  explicit WorkTime(at::Device device) : device_(device) {}

  // From its beginning to its end, both as far as they have been asked for.
  class Span {
   public:
    explicit Span(WorkTime& time);
    Span(Span&& other) noexcept;
    Span& operator=(Span&&) = delete;
    ~Span();

   private:
    WorkTime* time_;
    std::chrono::steady_clock::time_point started_;
    std::unique_ptr<c10::Event> beginning_;  // on a device
  };

  double seconds();  // of all spans; waits for what was asked in them

 private:
  struct Pending {
    std::unique_ptr<c10::Event> beginning, end;
  };
  std::unique_ptr<c10::Event> now() const;
  void add(std::size_t n);  // of the pending ones the first n

  at::Device device_;
  double seconds_ = 0;
  std::vector<Pending> pending_;
};

}  // namespace keyscope::capture
