#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/errors.hpp"

namespace keyscope::test {

// One sentence about what is wrong is what a damaged file should give: whatever else is thrown ends the
// process, which is what a fuzzer looks for.
template <typename Read>
void read_or_refuse(Read read) {
  try {
    read();
  } catch (const Error&) {
  }
}

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// What stands before the first line's end, and what behind it.
inline std::pair<std::string_view, std::string_view> first_line(std::string_view text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  return {text.substr(0, end), text.substr(std::min(end + 1, text.size()))};
}

// Where one target has several readers: the first byte says which, `read(kind, rest)`, of what is behind it.
template <typename Read>
int by_first_byte(const std::uint8_t* data, std::size_t size, Read read) {
  if (size > 0) read_or_refuse([&] { read(static_cast<char>(*data), as_text(data + 1, size - 1)); });
  return 0;
}

// Bytes as a file that has a name and lies on no disk.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : id_(memfd_create("fuzzed", MFD_CLOEXEC)) {
    if (id_ < 0 || write(id_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::abort();
  }
  ~MemoryFile() { close(id_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return fmt::format("/proc/self/fd/{}", id_); }

 private:
  int id_;
};

}  // namespace keyscope::test
