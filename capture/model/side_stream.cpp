#include "capture/model/side_stream.hpp"

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
  if (!device.is_cpu())
    stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
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

}  // namespace keyscope::capture
