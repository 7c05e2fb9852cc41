#pragma once

#include <cstdint>
#include <span>

#include "analysis/matrix_view.hpp"

namespace keyscope::figures {

// A token's time in a cache: the blocks whose queries could attend to it, both included, and what it is
// coloured by (NaN: nothing).
struct Life {
  std::int64_t first = 0, last = 0;
  double value = 0;
};

// Lives in order of position as an image that stays small: a row for every `tokens_per_row` tokens, a column
// for every `blocks_per_column` blocks. No token is left out.
struct LifeGrid {
  std::int64_t tokens_per_row = 1, blocks_per_column = 1;
  // (rows, columns) of the tokens and blocks of a cell, counted together:
  RowMatrixF share;  // that were in the cache, of those that had been seen; NaN where none had
  RowMatrixF value;  // mean of those in the cache that have one; NaN where there is none
};

// In O(lives + rows · columns), whatever the number of blocks.
//   lives: 0 <= first <= last < n_blocks each; max_size: of rows and of columns
LifeGrid grid_lives(std::span<const Life> lives, std::int64_t n_blocks, std::int64_t max_size);

}  // namespace keyscope::figures
