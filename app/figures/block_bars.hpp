#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace keyscope::figures {

// How many rows of one head went at the end of each block: (n_blocks).
//   evicted_at: (n_tokens) block at whose end the row went; -1: still there. Later blocks than n_blocks do
//   not count.
std::vector<std::int32_t> evictions_per_block(std::span<const std::int32_t> evicted_at,
                                              std::int64_t n_blocks);

// Neighbouring blocks drawn as one bar, by the least and the largest number that one of them evicted.
struct BlockBar {
  std::int64_t first = 0, last = 0;  // blocks, both included
  std::int32_t least = 0, most = 0;
  bool operator==(const BlockBar&) const = default;
};

// At most `n_most` bars (two where both parts are there and fewer are asked for), all of the same number of
// blocks but the last of each part, every block in one of them: none is left out, however many there are. No
// bar joins blocks of the prompt with generated ones.
//   n_prompt_blocks: how many of them belong to the prompt
std::vector<BlockBar> block_bars(std::span<const std::int32_t> evicted, std::int64_t n_prompt_blocks,
                                 std::int64_t n_most);

}  // namespace keyscope::figures
