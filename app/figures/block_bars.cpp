#include "app/figures/block_bars.hpp"

#include <algorithm>

namespace keyscope::figures {

namespace {

std::int64_t bars_of(std::int64_t n_blocks, std::int64_t per_bar) {
  return (n_blocks + per_bar - 1) / per_bar;
}

void add_bars(std::span<const std::int32_t> evicted, std::int64_t begin, std::int64_t end,
              std::int64_t per_bar, std::vector<BlockBar>& bars) {
  for (std::int64_t first = begin; first < end; first += per_bar) {
    const std::int64_t last = std::min(first + per_bar, end) - 1;
    const auto blocks = evicted.subspan(first, last - first + 1);
    const auto [least, most] = std::ranges::minmax_element(blocks);
    bars.push_back({first, last, *least, *most});
  }
}

}  // namespace

std::vector<std::int32_t> evictions_per_block(std::span<const std::int32_t> evicted_at,
                                              std::int64_t n_blocks) {
  std::vector<std::int32_t> evicted(n_blocks, 0);
  for (const std::int32_t block : evicted_at)
    if (block >= 0 && block < n_blocks) ++evicted[block];
  return evicted;
}

std::vector<BlockBar> block_bars(std::span<const std::int32_t> evicted, std::int64_t n_prompt_blocks,
                                 std::int64_t n_most) {
  const auto n_blocks = static_cast<std::int64_t>(evicted.size());
  const std::int64_t prompt = std::clamp<std::int64_t>(n_prompt_blocks, 0, n_blocks);
  const std::int64_t room = std::max<std::int64_t>(n_most, prompt > 0 && prompt < n_blocks ? 2 : 1);
  std::int64_t per_bar = std::max<std::int64_t>(1, bars_of(n_blocks, room));
  while (bars_of(prompt, per_bar) + bars_of(n_blocks - prompt, per_bar) > room) ++per_bar;
  std::vector<BlockBar> bars;
  add_bars(evicted, 0, prompt, per_bar, bars);
  add_bars(evicted, prompt, n_blocks, per_bar, bars);
  return bars;
}

}  // namespace keyscope::figures
