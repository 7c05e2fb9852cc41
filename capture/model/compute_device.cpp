#include "capture/model/compute_device.hpp"

#include <array>

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include "base/errors.hpp"
#include "capture/model/memory.hpp"
#include "capture/model/transformer.hpp"

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
  if (asked != "auto" && asked != "cpu" && asked != "cuda")
    throw UsageError(fmt::format("--device: '{}' is not one of auto, cpu, cuda", asked));
  // The driver first: to look for it costs nothing where it is not, LibTorch's CUDA part half a gigabyte.
  if (asked == "cpu" || (asked == "auto" && !load(kDriver).empty())) return;
  const std::string reason = why_not_cuda();
  if (!reason.empty() && asked == "cuda")
    throw Error(fmt::format("--device cuda: {}; or use --device cpu", reason));
  if (!reason.empty()) return;
  at::globalContext().lazyInitDevice(at::kCUDA);
  ask_for_exact_products();
  device_ = at::Device(at::kCUDA, 0);
  const std::string product = product_name(device_.index());
  name_ = product.empty() ? device_.str() : fmt::format("{} {}", device_.str(), product);
}

std::int64_t ComputeDevice::available_memory() const {
  if (is_cpu()) return capture::available_memory();
  at::accelerator::emptyCache();
  return static_cast<std::int64_t>(at::accelerator::getMemoryInfo(device_.index()).first);
}

std::int64_t peak_memory(at::Device device) {
  if (device.is_cpu()) return peak_resident_memory();
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingDeviceAllocator::StatType::AGGREGATE);
  return at::accelerator::getDeviceStats(device.index()).reserved_bytes[kAll].peak;
}

}  // namespace keyscope::capture
