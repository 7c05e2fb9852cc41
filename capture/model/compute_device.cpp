#include "capture/model/compute_device.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.hpp"
#include "capture/model/device_choice.hpp"
#include "capture/model/memory.hpp"

namespace keyscope::capture {
namespace {

constexpr const char* kDriver = "libcuda.so.1";

// Empty, or why the library cannot be had. It stays loaded: LibTorch has its kernels from then on.
std::string load(const char* library) {
  if (dlopen(library, RTLD_NOW | RTLD_GLOBAL) != nullptr) return "";
  const char* reason = dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps one for each thread
  return reason == nullptr ? std::string(library) + ": no reason given" : reason;
}

// As its maker calls it, by the driver's own interface, which LibTorch does not pass on; empty where that is
// not there.
std::string product_name(int index) {
  void* driver = dlopen(kDriver, RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return "";
  const auto get = reinterpret_cast<int (*)(int*, int)>(dlsym(driver, "cuDeviceGet"));
  const auto get_name = reinterpret_cast<int (*)(char*, int, int)>(dlsym(driver, "cuDeviceGetName"));
  std::array<char, 256> name{};
  int handle = 0;
  const bool known = get != nullptr && get_name != nullptr && get(&handle, index) == 0 &&
                     get_name(name.data(), static_cast<int>(name.size()) - 1, handle) == 0;
  dlclose(driver);
  return known ? name.data() : "";
}

// Sums of products stay in float32, whatever is faster.
void ask_for_exact_products() {
  at::globalContext().setAllowTF32CuBLAS(false);
  at::globalContext().setAllowFP16ReductionCuBLAS(false);
  at::globalContext().setAllowBF16ReductionCuBLAS(false);
}

// Empty where CUDA can be used, else why not.
std::string why_not_cuda() {
  if (const std::string reason = load("libtorch_cuda.so"); !reason.empty())
    return fmt::format(
        "LibTorch's CUDA part cannot be loaded ({}); `./run setup --cuda` installs what it needs", reason);
  if (at::accelerator::deviceCount() > 0) return "";
  const std::string driver = load(kDriver);
  return driver.empty()
             ? "LibTorch's CUDA part is loaded and finds no NVIDIA GPU"
             : fmt::format("LibTorch's CUDA part is loaded, and there is no NVIDIA driver ({})", driver);
}

}  // namespace

ComputeDevice::ComputeDevice(const std::string& asked) {
  const DeviceChoice choice = parse_device(asked);
  const bool may_be_cpu = choice.kind == DeviceChoice::Kind::kAuto;
  // The driver first: to look for it costs nothing where it is not, LibTorch's CUDA part half a gigabyte.
  if (choice.kind == DeviceChoice::Kind::kCpu || (may_be_cpu && !load(kDriver).empty())) return;
  const std::string reason = why_not_cuda();
  if (!reason.empty() && !may_be_cpu)
    throw Error(fmt::format("--device {}: {}; or use --device cpu", asked, reason));
  if (!reason.empty()) return;
  at::globalContext().lazyInitDevice(at::kCUDA);
  ask_for_exact_products();
  std::vector<int> indices = choice.indices;
  if (indices.empty()) indices.push_back(0);
  devices_.clear();
  for (const int index : indices) {
    if (index >= at::accelerator::deviceCount())
      throw Error(fmt::format("--device {}: there is no GPU {}; there are {}, counted from 0", asked, index,
                              at::accelerator::deviceCount()));
    devices_.emplace_back(at::kCUDA, static_cast<c10::DeviceIndex>(index));
  }
  name_ = fmt::format("cuda:{}", fmt::join(indices, ","));
  if (const std::string product = product_name(indices.front()); !product.empty()) name_ += " " + product;
}

std::int64_t ComputeDevice::available_memory() const {
  if (is_cpu()) return capture::available_memory();
  at::accelerator::emptyCache();
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const at::Device device : devices_)
    least = std::min(least, at::accelerator::getMemoryInfo(device.index()).first);
  return static_cast<std::int64_t>(least) * std::ssize(devices_);
}

std::int64_t peak_memory(const std::vector<at::Device>& devices) {
  if (devices.front().is_cpu()) return peak_resident_memory();
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingDeviceAllocator::StatType::AGGREGATE);
  std::int64_t peak = 0;
  for (const at::Device device : devices)
    peak += at::accelerator::getDeviceStats(device.index()).reserved_bytes[kAll].peak;
  return peak;
}

}  // namespace keyscope::capture
