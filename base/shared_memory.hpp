#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace keyscope {

// Memory that child processes map as well: a long stretch of addresses behind a file without a name, of which
// only those pages are there that were touched. What was given back is used again.
class SharedMemory : public std::enable_shared_from_this<SharedMemory> {
 public:
  //   throws Error where the system has none. Limits of the process on the size of files and of addresses
  //   hold.
  static std::shared_ptr<SharedMemory> create();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // Some bytes at the beginning of a page; given back when nobody holds them any more. They keep the memory.
  //   throws Error where no addresses are left
  std::shared_ptr<std::byte> take(std::int64_t n_bytes);

  // Where an address lies in the file; -1: it is not of this memory.
  std::int64_t offset_of(const void* address) const;

  int descriptor() const { return descriptor_; }

 private:
  SharedMemory();
  void give_back(std::int64_t size, std::byte* bytes);

  int descriptor_ = -1;
  std::int64_t size_ = 0;  // addresses, in bytes
  std::byte* begin_ = nullptr;
  std::mutex mutex_;
  std::int64_t used_ = 0;                                   // bytes ever taken
  std::map<std::int64_t, std::vector<std::byte*>> unused_;  // by size
};

}  // namespace keyscope
