#include "capture/inference/head_slice.hpp"

#include <cstddef>
#include <cstring>

#include "capture/kernels/kernels.hpp"

namespace keyscope::capture {

void rotate_rows(const HeadSlice& rows, const RotaryTable& table, std::int64_t first, void* out) {
  const std::int64_t offset = first * rows.head_dim / 2;
  kernels::of(rows.dtype)
      .rotate({.in = rows.first,
               .in_stride = rows.stride,
               .cos = table.cos.const_data_ptr<float>() + offset,
               .sin = table.sin.const_data_ptr<float>() + offset,
               .out = out,
               .out_stride = rows.head_dim,
               .rows = rows.n,
               .head_dim = rows.head_dim});
}

void copy_rows(const HeadSlice& rows, void* out) {
  const auto width = static_cast<std::int64_t>(c10::elementSize(rows.dtype));
  const auto* from = static_cast<const std::byte*>(rows.first);
  auto* to = static_cast<std::byte*>(out);
  const auto n_bytes = static_cast<std::size_t>(rows.head_dim * width);
  for (std::int64_t row = 0; row < rows.n; ++row)
    std::memcpy(to + row * rows.head_dim * width, from + row * rows.stride * width, n_bytes);
}

}  // namespace keyscope::capture
