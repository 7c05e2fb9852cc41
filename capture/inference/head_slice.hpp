#pragma once

#include <cstdint>

#include <c10/core/ScalarType.h>

#include "capture/model/rope.hpp"

namespace keyscope::capture {

// One head's part of rows that hold several heads: `n` vectors of `head_dim`, `stride` elements apart.
struct HeadSlice {
  at::ScalarType dtype;
  const void* first;
  std::int64_t stride;
  std::int64_t n;
  std::int64_t head_dim;
};

// To (n, head_dim), rotated by entries [first, first + n) of a table.
void rotate_rows(const HeadSlice& rows, const RotaryTable& table, std::int64_t first, void* out);

// To (n, head_dim), as they are.
void copy_rows(const HeadSlice& rows, void* out);

}  // namespace keyscope::capture
