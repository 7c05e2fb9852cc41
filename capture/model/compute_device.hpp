#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <c10/core/Device.h>

namespace keyscope::capture {

// Where a model computes: the CPU, or one or more CUDA devices.
class ComputeDevice {
 public:
  // asked: as parse_device reads it; auto is CUDA where LibTorch's CUDA part loads and finds a device, else
  // the CPU. Nothing of CUDA is loaded before it is asked for here, and by auto not where there is no driver.
  //   throws UsageError on another word; Error naming the library that is missing, or the device that is not
  //   there
  explicit ComputeDevice(const std::string& asked);

  const std::vector<at::Device>& devices() const { return devices_; }
  bool is_cpu() const { return devices_.front().is_cpu(); }
  // "cpu", "cuda:0 NVIDIA H100 80GB HBM3", "cuda:0,1 NVIDIA H100 80GB HBM3"
  const std::string& name() const { return name_; }

  // Bytes that can still be taken of their memory, as much of each as of the one that has least; what
  // LibTorch keeps there for later counts as free.
  std::int64_t available_memory() const;

 private:
  std::vector<at::Device> devices_{at::kCPU};
  std::string name_ = "cpu";
};

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

// The most memory that this process has had at once, in bytes: on the CPU what was resident since it was
// started, on other devices what LibTorch took of each for tensors.
std::int64_t peak_memory(const std::vector<at::Device>& devices);

}  // namespace keyscope::capture
