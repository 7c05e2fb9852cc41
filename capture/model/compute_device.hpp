#pragma once

#include <cstdint>
#include <string>

#include <c10/core/Device.h>

#include "capture/model/transformer.hpp"

namespace keyscope::capture {

// Where a model computes: the CPU, or the first CUDA device.
class ComputeDevice {
 public:
  // asked: auto, cpu or cuda; auto is CUDA where LibTorch's CUDA part loads and finds a device, else the CPU.
  // Nothing of CUDA is loaded before it is asked for here, and by auto not where there is no driver.
  //   throws UsageError on another word; Error naming the library that is missing, or that there is no device
  explicit ComputeDevice(const std::string& asked);

  at::Device device() const { return device_; }
  bool is_cpu() const { return device_.is_cpu(); }
  const std::string& name() const { return name_; }  // "cpu", "cuda:0 NVIDIA H100 80GB HBM3"

  // Bytes that can still be taken of its memory; what LibTorch keeps there for later counts as free.
  std::int64_t available_memory() const;

 private:
  at::Device device_ = at::kCPU;
  std::string name_ = "cpu";
};

// The most memory that this process has had at once, in bytes: on the CPU what was resident since it was
// started, on another device what LibTorch took of it for tensors.
std::int64_t peak_memory(at::Device device);

}  // namespace keyscope::capture
