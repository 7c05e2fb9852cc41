#pragma once

#include <utility>
#include <vector>

#include <c10/core/Device.h>

namespace keyscope::capture {

// On which devices a model's tensors lie: all on one, or its layers spread over several, as many one after
// another on each. What comes before the layers lies on the first, what comes after them on the last.
class Placement {
 public:
  Placement(at::Device device = at::kCPU)  // NOLINT(google-explicit-constructor): a device is a place
      : devices_{device} {}
  //   devices: at least one
  Placement(std::vector<at::Device> devices, int n_layers)
      : devices_(std::move(devices)), n_layers_(n_layers) {}

  const std::vector<at::Device>& devices() const { return devices_; }
  at::Device first() const { return devices_.front(); }
  at::Device last() const { return devices_.back(); }
  at::Device layer(int index) const {
    return devices_[static_cast<std::size_t>(index) * devices_.size() / static_cast<std::size_t>(n_layers_)];
  }

 private:
  std::vector<at::Device> devices_;
  int n_layers_ = 1 << 30;
};

}  // namespace keyscope::capture
