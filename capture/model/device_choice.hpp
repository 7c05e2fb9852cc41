#pragma once

#include <string_view>
#include <vector>

namespace keyscope::capture {

// Where a model is to compute, as its user says it.
struct DeviceChoice {
  enum class Kind { kAuto, kCpu, kCuda } kind = Kind::kAuto;
  std::vector<int> indices;  // of CUDA devices, over which layers are spread; none: the first
};

// "auto", "cpu", "cuda", "cuda:1", "cuda:0,1".
//   throws UsageError on anything else, and where a device is named twice
DeviceChoice parse_device(std::string_view text);

}  // namespace keyscope::capture
