#pragma once

// The loops that are our own: what LibTorch would take several passes over memory for, or does not have.
// Plain data and function pointers only, as every level of x86-64 compiles this header anew.

#include <cstdint>

namespace keyscope::capture::kernels {

// Columns of a panel: attention's products are taken panel by panel, so that every one has the same shape
// however long the cache is.
inline constexpr std::int64_t kPanel = 128;

enum class Activation {
  kSilu,
  kGeluTanh,
  kClampedSwiglu,  // (up + 1) · gate · sigmoid(1.702 gate), gate at most and up within ± a limit (gpt-oss)
};

// RMSNorm of `rows` rows of `cols` elements. The normalised value is rounded to the element type before the
// weight multiplies it, as Transformers' Llama does; with `unit_offset` it is multiplied by 1 + weight in
// float32 and rounded once, as its Gemma does.
struct RmsNorm {
  const void* in;
  const void* weight;  // (cols)
  void* out;
  std::int64_t rows, cols;
  float epsilon;
  bool unit_offset;
};

// Rotary positions: `rows` vectors of `head_dim` elements, of which the first `rotary_dim` rotate, in pairs
// half of rotary_dim apart or, interleaved, of neighbours; the others are copied.
struct Rotation {
  const void* in;
  std::int64_t in_stride;  // elements from one row to the next
  const float* cos;        // (rows, rotary_dim / 2)
  const float* sin;        // (rows, rotary_dim / 2)
  void* out;
  std::int64_t out_stride;
  std::int64_t rows, head_dim, rotary_dim;
  bool interleaved;
};

// A tile of attention scores becomes weights: softmax over each row's visible columns.
struct SoftmaxTile {
  float* scores;        // [panel][row][kPanel] raw products; overwritten with the weights
  std::int64_t n_rows;  // queries of the tile
  std::int64_t n_panels;
  const std::int32_t* begin;  // (n_rows) first visible column of a row
  const std::int32_t* end;    // (n_rows) one past the last; at least one is visible
  float scale;
  float softcap;        // c: scores become c tanh(score / c); 0: they do not
  float sink;           // a score that every row has besides, and no column; minus infinity: none
  void* weights;        // [panel][row][kPanel] as the element type; null: not wanted
  float* log_sum_exp;   // (n_rows) the sink's score included
  float* entropy;       // (n_rows) of each row's weights, the sink's included, in nats; null: not wanted
  double* column_sums;  // (n_panels · kPanel) added to; null: not wanted
};

// sums += weights of a tile's rows from `first_row` on, per column.
struct ColumnSums {
  const float* weights;  // [panel][row][kPanel]
  std::int64_t n_rows, n_panels, first_row;
  double* sums;  // (n_panels · kPanel)
};

// y = x wᵀ + bias for a few rows: reads the weights once, as fast as memory gives them.
struct ThinProduct {
  const float* x;      // (rows, inner)
  const void* weight;  // (outer, inner)
  std::int64_t weight_stride;
  float* y;  // (rows, y_stride), columns [first, last) are written
  std::int64_t y_stride;
  std::int64_t rows, inner, first, last;
};

// Inputs of a weight that a wide product takes at once.
inline constexpr std::int64_t kProductDepth = 256;

// y = x wᵀ + bias for many rows, rounded once: the sums are float32, over the inputs in their order, and for
// a row the same whichever other rows there are. Reads the weights once.
struct WideProduct {
  const float* panels;  // x, tile_rows rows at a time as pack_rows gives them: [panel][inner][tile_rows]
  const void* weight;   // (outer, inner)
  const void* bias;     // (outer) as the element type; null: none
  void* y;              // (rows, y_stride) as the element type, columns [first, last) are written
  std::int64_t y_stride;
  std::int64_t rows, inner;
  std::int64_t first = 0, last = 0;
  float* scratch = nullptr;  // (last - first) · (kProductDepth + rows, rounded up to whole panels)
};

// out += weights · rows for a few rows of weights: (n_out, n) times (n, width).
struct WeightedSum {
  const float* weights;
  std::int64_t weights_stride;
  const void* rows;  // (n, width)
  float* out;        // (n_out, width), overwritten
  std::int64_t n_out, n, width;
};

// C = A B, or C += A B, in float32: A (rows, inner) with stride, B (inner, cols) and C (rows, cols) packed.
struct PanelProduct {
  const float* a;
  std::int64_t a_stride;
  const float* b;
  float* c;
  std::int64_t rows, inner, cols;
  bool add;
};

// One head of a gated delta rule over n tokens: for each, S ← decay S; d = update (v - Sᵀk); S ← S + k dᵀ;
// out = Sᵀq.
struct DeltaRule {
  const float *queries, *keys;  // (n, key_dim) with stride
  std::int64_t key_stride;
  const float* values;  // (n, value_dim) with stride, which is that of out, too
  std::int64_t value_stride;
  const float *decay, *update;  // (n) with stride
  std::int64_t rate_stride;
  float* memory;  // S, (key_dim, value_dim)
  float* out;     // (n, value_dim) with stride
  std::int64_t n, key_dim, value_dim;
};

// Loops over one element type: float32, bfloat16 or float16, accumulated in float32.
struct ElementKernels {
  void (*rms_norm)(const RmsNorm&);
  void (*rotate)(const Rotation&);
  // act(gate) · up, in place; limit: of kClampedSwiglu
  void (*gate)(void* gate, const void* up, std::int64_t n, Activation activation, float limit);
  void (*add)(void* sum, const void* other, std::int64_t n);
  bool (*all_finite)(const void* values, std::int64_t n);
  void (*to_float)(const void* from, float* to, std::int64_t n);
  void (*from_float)(const float* from, void* to, std::int64_t n);
  void (*softmax)(const SoftmaxTile&);
  void (*thin_product)(const ThinProduct&);
  void (*wide_product)(const WideProduct&);
  void (*weighted_sum)(const WeightedSum&);
  // Rows [0, n) of (n, width) as float32, transposed: [width][tile_rows] for wide products, [width][kPanel]
  // for attention's; rows past n are zeros.
  void (*pack_rows)(const void* rows, std::int64_t n, std::int64_t width, float* panel);
  void (*transpose_panel)(const void* rows, std::int64_t n, std::int64_t width, float* panel);
};

// The same loops at one level of x86-64.
struct Kernels {
  const char* level;       // x86-64-v2, x86-64-v3, x86-64-v4
  std::int64_t tile_rows;  // of a wide product's panels
  ElementKernels float32, bfloat16, float16;
  void (*multiply_panel)(const PanelProduct&);
  void (*add_columns)(const ColumnSums&);
  void (*delta_rule)(const DeltaRule&);
  // Rows [0, n) of (n, width) two-byte elements as a brgemm operand: pairs along `width` for products with
  // every row ([width / 2][kPanel][2]), or pairs along the rows for sums over them ([kPanel / 2][width][2]).
  void (*pair_columns)(const void* rows, std::int64_t n, std::int64_t width, void* panel);
  void (*pair_rows)(const void* rows, std::int64_t n, std::int64_t width, void* panel);
};

}  // namespace keyscope::capture::kernels
