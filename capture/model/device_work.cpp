#include "capture/model/device_work.hpp"

#include <cstddef>
#include <utility>

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace keyscope::capture {

DeviceMoment DeviceMoment::of(const c10::Stream& stream) {
  DeviceMoment moment;
  moment.event_ = std::make_shared<c10::Event>(stream.device_type());
  moment.event_->record(stream);
  return moment;
}

DeviceMoment DeviceMoment::of(at::Device device) {
  if (device.is_cpu()) return {};
  return of(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

void DeviceMoment::wait() const {
  if (event_ != nullptr) event_->synchronize();
}

void DeviceMoment::hold_back(at::Device device) const {
  if (event_ != nullptr) event_->block(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

SideStream::SideStream(at::Device device) {
  if (!device.is_cpu()) stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

DeviceMoment SideStream::run(const DeviceMoment& after, const std::function<void()>& work) const {
  if (!stream_) {
    work();
    return {};
  }
  const c10::StreamGuard beside(*stream_);
  after.hold_back(stream_->device());
  work();
  return DeviceMoment::of(*stream_);
}

// Pinned memory: only there does a device copy while it computes.
HostCopy::HostCopy(const at::Tensor& tensor, const SideStream& stream) : source_(tensor.contiguous()) {
  if (source_.is_cpu()) {
    host_ = source_;
    return;
  }
  host_ = at::empty(source_.sizes(), source_.options().device(at::kCPU).pinned_memory(true));
  arrival_ = stream.run(DeviceMoment::of(source_.device()), [&] { host_.copy_(source_, true); });
}

at::Tensor HostCopy::arrived() const {
  arrival_.wait();
  return host_;
}

WorkTime::Span::Span(WorkTime& time) : time_(&time), started_(std::chrono::steady_clock::now()) {
  constexpr std::size_t kMostPending = 64;
  if (time.pending_.size() >= kMostPending) time.add(kMostPending / 2);  // long past
  beginning_ = time.now();
}

WorkTime::Span::Span(Span&& other) noexcept
    : time_(std::exchange(other.time_, nullptr)),
      started_(other.started_),
      beginning_(std::move(other.beginning_)) {}

WorkTime::Span::~Span() {
  if (time_ == nullptr) return;
  if (beginning_ == nullptr) {
    time_->seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    return;
  }
  try {
    time_->pending_.push_back({std::move(beginning_), time_->now()});
  } catch (...) {  // a device that has failed says so elsewhere
  }
}

std::unique_ptr<c10::Event> WorkTime::now() const {
  if (device_.is_cpu()) return nullptr;
  auto event =
      std::make_unique<c10::Event>(device_.type(), c10::EventFlag::BACKEND_DEFAULT);  // with its time
  event->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  return event;
}

void WorkTime::add(std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    pending_[i].end->synchronize();
    seconds_ += pending_[i].beginning->elapsedTime(*pending_[i].end) / 1000;
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(n));
}

double WorkTime::seconds() {
  add(pending_.size());
  return seconds_;
}

}  // namespace keyscope::capture
