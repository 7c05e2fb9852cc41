#pragma once

// A few columns of a product with many rows: weights become float32 a piece at a time, in the first caches,
// and are multiplied by every row while they are there.
// As lanes.hpp, in an anonymous namespace: every level of x86-64 has its own.

#include "capture/kernels/kernel_table.hpp"
#include "capture/kernels/lanes.hpp"

namespace keyscope::capture::kernels {
namespace {  // NOLINT(google-build-namespaces)

// Sums of kTileColumns columns and kTileRows rows stay in registers, beside the rows and one weight.
inline constexpr int64_t kTileVectors = 2, kTileRows = kTileVectors * kLanes;
inline constexpr int64_t kTileColumns = kRegisters == 32 ? 14 : 6;

// Whether the next rows are asked for while these are multiplied, as they lie pages apart. Of 2,048 rows and
// 8,192 inputs it was faster with AVX2 in ten of eleven runs in turns, by a tenth, and slower with AVX-512 in
// most.
inline constexpr bool kAsksForRows = kLanes == 8;

// sums[column][row] += weights · rows, for the columns whose weights follow each other at kProductDepth.
template <int64_t kColumns>
inline void multiply_tile(const float* weights, const float* rows, int64_t depth, float* sums) {
  Floats tile[kColumns][kTileVectors];
  for (int64_t c = 0; c < kColumns; ++c)
    for (int64_t v = 0; v < kTileVectors; ++v)
      tile[c][v] = load_vector<Floats>(sums + c * kTileRows + v * kLanes);
#pragma GCC unroll 4
  for (int64_t k = 0; k < depth; ++k, rows += kTileRows) {
    Floats x[kTileVectors];
    for (int64_t v = 0; v < kTileVectors; ++v) x[v] = load_vector<Floats>(rows + v * kLanes);
    for (int64_t c = 0; c < kColumns; ++c) {
      const float weight = weights[c * kProductDepth + k];
      for (int64_t v = 0; v < kTileVectors; ++v) tile[c][v] += weight * x[v];
    }
  }
  for (int64_t c = 0; c < kColumns; ++c)
    for (int64_t v = 0; v < kTileVectors; ++v) store_vector(sums + c * kTileRows + v * kLanes, tile[c][v]);
}

// Rows [0, n) of (n, width) as float32, transposed: [width][kRows]; rows past n are zeros.
template <typename T, int64_t kRows>
void transpose_rows(const void* rows, int64_t n, int64_t width, float* to) {
  static_assert(kRows % kLanes == 0);
  for (int64_t at = 0; at < width; at += kLanes) {
    const int64_t n_columns = width - at < kLanes ? width - at : kLanes;
    for (int64_t row = 0; row < kRows; row += kLanes) {
      Floats v[kLanes] = {};
      for (int64_t i = 0; i < kLanes && row + i < n; ++i)
        v[i] = load_some(as<T>(rows) + (row + i) * width + at, n_columns);
      transpose(v);
      for (int64_t i = 0; i < n_columns; ++i) store_vector(to + (at + i) * kRows + row, v[i]);
    }
  }
}

// Asks for the lines of n values, for the first cache (3) or the second (2).
template <int kCache, typename T>
void ask_for(const T* from, int64_t n) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < n; i += kLine) __builtin_prefetch(from + i, 0, kCache);
}

// The sums of all columns, [column][kTileRows], of the first kLanes rows that `sums` points to, rounded.
template <typename T>
void store_rows(const WideProduct& product, const float* sums, int64_t row) {
  const T* bias = as<T>(product.bias);
  const int64_t n_rows = product.rows - row < kLanes ? product.rows - row : kLanes;
  for (int64_t column = product.first; column < product.last; column += kLanes) {
    const int64_t n = product.last - column < kLanes ? product.last - column : kLanes;
    const float* from = sums + (column - product.first) * kTileRows;
    Floats v[kLanes] = {};
    for (int64_t i = 0; i < n; ++i) v[i] = load_vector<Floats>(from + i * kTileRows);
    transpose(v);
    const Floats added = bias == nullptr ? Floats{} : load_some(bias + column, n);
    T* y = as<T>(product.y) + row * product.y_stride + column;
    for (int64_t i = 0; i < n_rows; ++i) store_some(y + i * product.y_stride, v[i] + added, n);
  }
}

template <typename T>
void wide_product(const WideProduct& product) {
  constexpr int64_t kColumnsAhead = 8;
  const int64_t n_columns = product.last - product.first, n_tiles = n_columns / kTileColumns;
  const int64_t n_panels = (product.rows + kTileRows - 1) / kTileRows;
  float* weights = product.scratch;                   // [column][kProductDepth]
  float* sums = weights + n_columns * kProductDepth;  // [panel][column][kTileRows]
  __builtin_memset(sums, 0, static_cast<std::size_t>(n_panels * n_columns * kTileRows) * sizeof *sums);
  for (int64_t first = 0; first < product.inner; first += kProductDepth) {
    const int64_t left = product.inner - first, depth = left < kProductDepth ? left : kProductDepth;
    const T* from = as<T>(product.weight) + product.first * product.inner + first;
    for (int64_t c = 0; c < n_columns; ++c) {
      // Pieces are too short for the processor to see where the next one lies.
      ask_for<3>(from + (c + kColumnsAhead) * product.inner, depth);
      to_float<T>(from + c * product.inner, weights + c * kProductDepth, depth);
    }
    for (int64_t panel = 0; panel < n_panels; ++panel) {
      const float* rows = product.panels + (panel * product.inner + first) * kTileRows;
      // The next rows; after the last ones the first ones' next inputs; at the end it begins anew.
      const bool last = panel + 1 == n_panels;
      const int64_t next = !last ? first : first + depth < product.inner ? first + depth : 0;
      const float* next_rows = product.panels + ((last ? 0 : panel + 1) * product.inner + next) * kTileRows;
      const int64_t n_next = (depth < product.inner - next ? depth : product.inner - next) * kTileRows;
      float* to = sums + panel * n_columns * kTileRows;
      int64_t c = 0;
      for (int64_t tile = 0; tile < n_tiles; ++tile, c += kTileColumns) {
        const int64_t asked = n_next * tile / n_tiles;
        if (kAsksForRows) ask_for<2>(next_rows + asked, n_next * (tile + 1) / n_tiles - asked);
        multiply_tile<kTileColumns>(weights + c * kProductDepth, rows, depth, to + c * kTileRows);
      }
      for (; c < n_columns; ++c)
        multiply_tile<1>(weights + c * kProductDepth, rows, depth, to + c * kTileRows);
    }
  }
  for (int64_t row = 0; row < product.rows; row += kLanes)
    store_rows<T>(product, sums + row / kTileRows * n_columns * kTileRows + row % kTileRows, row);
}

}  // namespace
}  // namespace keyscope::capture::kernels
