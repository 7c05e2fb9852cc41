#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace keyscope::gguf {

// How GGUF stores the numbers of a tensor: in blocks of some values each, which lie along a row and hold
// scales of their own. Formats of one value per block are plain numbers.
struct BlockFormat {
  std::uint32_t id;       // as tensor infos have it
  std::string_view name;  // "F32", "Q4_K", …
  std::int64_t n_values;  // of a block
  std::int64_t n_bytes;   // of a block
  // Whole blocks as float32, bit by bit what `gguf.quants.dequantize` of the package `gguf` (PyPI) gives;
  // null where the format is known and not supported.
  //   blocks: n_blocks · n_bytes, at any alignment; out: n_blocks · n_values
  void (*unpack)(const std::byte* blocks, std::int64_t n_blocks, float* out);
};

// Null where no format has this number.
const BlockFormat* find_block_format(std::uint32_t id);

// "F32, F16, …": those that can be unpacked.
std::string supported_block_formats();

}  // namespace keyscope::gguf
