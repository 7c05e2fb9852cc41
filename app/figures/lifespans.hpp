#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "app/figures/figure.hpp"
#include "app/figures/life_grid.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

// Whether only the rows of a figure's matrices are tokens, its columns being blocks.
constexpr bool has_block_columns(std::string_view figure) { return figure == "lifespans"; }

struct LifespansSelection {
  int run = 0;  // index into the recording's runs
  int layer = 0;
  int kv_head = 0;
  bool margins = false;          // coloured by the margin that a token went by, not by attention
  std::int64_t max_size = 1024;  // rows and columns of the images
};

// The lives of one head's tokens: from the block that each came with to the block at whose end it was
// evicted, or the run's last one.
//   values: (n_tokens) what each is coloured by
std::vector<Life> token_lives(const recording::RunInfo& run, std::span<const std::int32_t> evicted_at,
                              std::span<const double> values);

// `lifespans`: which tokens one head's cache holds during each block, and what they are to it: tokens from
// top to bottom, blocks from left to right. Two panels: the share of a cell's tokens that are in the cache,
// and the mean of their attention received per query (of the run `none` where the run is replayed), or of the
// margin that they went by. Where there are more tokens or blocks than cells, the note says how many a cell
// stands for.
//   throws UsageError on a selection that is not there, FileError as the recording does
Figure lifespans_figure(const recording::Recording& recording, const LifespansSelection& selection);

}  // namespace keyscope::figures
