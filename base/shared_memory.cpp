#include "base/shared_memory.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/errors.hpp"

namespace keyscope {

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 38;  // bytes
constexpr std::int64_t kPage = 4096;

std::int64_t limit_of(__rlimit_resource resource) {
  rlimit limit{};
  const bool limited = getrlimit(resource, &limit) == 0 && limit.rlim_cur < static_cast<rlim_t>(kMost);
  return limited ? static_cast<std::int64_t>(limit.rlim_cur) : kMost;
}

// As many addresses as a process of this one's limits may have beside its own: a file beyond its limit would
// not be refused but end the process.
std::int64_t n_addresses() {
  const std::int64_t most = std::min(limit_of(RLIMIT_FSIZE), limit_of(RLIMIT_AS) / 4);
  return most / kPage * kPage;
}

// Rounded up to an eighth of a power of two, so that what was given back fits the next one of about that
// size.
std::int64_t size_class(std::int64_t n_bytes) {
  const std::int64_t pages = std::max<std::int64_t>(1, (n_bytes + kPage - 1) / kPage);
  const auto step = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(pages))) / 8;
  return step == 0 ? pages * kPage : (pages + step - 1) / step * step * kPage;
}

}  // namespace

std::shared_ptr<SharedMemory> SharedMemory::create() {
  return std::shared_ptr<SharedMemory>(new SharedMemory());
}

SharedMemory::SharedMemory() : descriptor_(memfd_create("keyscope", MFD_CLOEXEC)), size_(n_addresses()) {
  void* mapped = MAP_FAILED;
  if (descriptor_ >= 0 && ftruncate(descriptor_, size_) == 0)
    mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor_, 0);
  if (mapped == MAP_FAILED) {
    const std::string why = std::strerror(errno);
    if (descriptor_ >= 0) close(descriptor_);
    throw Error(fmt::format("{} bytes of memory that is shared with a policy's process cannot be had: {}",
                            size_, why));
  }
  begin_ = static_cast<std::byte*>(mapped);
}

SharedMemory::~SharedMemory() {
  munmap(begin_, size_);
  close(descriptor_);
}

std::shared_ptr<std::byte> SharedMemory::take(std::int64_t n_bytes) {
  const std::int64_t size = size_class(n_bytes);
  const std::lock_guard lock(mutex_);
  std::byte* bytes = nullptr;
  if (auto& unused = unused_[size]; !unused.empty()) {
    bytes = unused.back();
    unused.pop_back();
  } else {
    if (size > size_ - used_)
      throw Error(
          fmt::format("memory that is shared with a policy's process: {} bytes are too many beside {} of {}; "
                      "its size follows from the limits of this process (ulimit -f, ulimit -v)",
                      n_bytes, used_, size_));
    bytes = begin_ + used_;
    used_ += size;
  }
  return {bytes, [memory = shared_from_this(), size](std::byte* taken) { memory->give_back(size, taken); }};
}

void SharedMemory::give_back(std::int64_t size, std::byte* bytes) {
  const std::lock_guard lock(mutex_);
  unused_[size].push_back(bytes);
}

std::int64_t SharedMemory::offset_of(const void* address) const {
  const auto* byte = static_cast<const std::byte*>(address);
  return byte >= begin_ && byte < begin_ + size_ ? byte - begin_ : -1;
}

}  // namespace keyscope
