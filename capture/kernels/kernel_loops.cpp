// Compiled once per level of x86-64, with KEYSCOPE_KERNELS naming what this copy defines and KEYSCOPE_LEVEL
// its level. Includes nothing that has functions of external linkage: the linker keeps one copy of such a
// function, and one made for a newer processor must not end up in code that an older one runs.

#include "capture/kernels/kernel_table.hpp"
#include "capture/kernels/lanes.hpp"
#include "capture/kernels/product_tile.hpp"
#include "capture/kernels/softmax_tile.hpp"

namespace keyscope::capture::kernels {
namespace {

template <typename T>
void rms_norm(const RmsNorm& norm) {
  const T* weight = as<T>(norm.weight);
  for (int64_t row = 0; row < norm.rows; ++row) {
    const T* in = as<T>(norm.in) + row * norm.cols;
    T* out = as<T>(norm.out) + row * norm.cols;
    Floats squares{};
    for_lanes(norm.cols, [&](int64_t i, int64_t n) {
      const Floats x = load_some(in + i, n);
      squares += x * x;
    });
    const float mean = sum_of(squares) / static_cast<float>(norm.cols);
    const float scale = 1.F / __builtin_sqrtf(mean + norm.epsilon);
    for_lanes(norm.cols, [&](int64_t i, int64_t n) {
      const Floats x = load_some(in + i, n) * scale;
      const Floats w = load_some(weight + i, n);
      if (norm.unit_offset) return store_some(out + i, x * (1.F + w), n);
      T rounded[kLanes];
      T::store(rounded, x);
      store_some(out + i, w * T::load(rounded), n);
    });
  }
}

// A vector of every other element of two that follow each other, from the first or the second on; and back.
inline Floats every_other(Floats a, Floats b, int64_t first) {
  Floats v{};
  for (int64_t i = 0; i < kLanes / 2; ++i) {
    v[i] = a[2 * i + first];
    v[kLanes / 2 + i] = b[2 * i + first];
  }
  return v;
}

inline Floats interleaved(Floats even, Floats odd, int64_t first) {
  Floats v{};
  for (int64_t i = 0; i < kLanes / 2; ++i) {
    v[2 * i] = even[first + i];
    v[2 * i + 1] = odd[first + i];
  }
  return v;
}

template <typename T>
void rotate_halves(const T* in, const float* cosines, const float* sines, T* out, int64_t half) {
  const auto* cos = as<Float32>(static_cast<const void*>(cosines));
  const auto* sin = as<Float32>(static_cast<const void*>(sines));
  for_lanes(half, [&](int64_t i, int64_t n) {
    const Floats x = load_some(in + i, n), y = load_some(in + half + i, n);
    const Floats c = load_some(cos + i, n), s = load_some(sin + i, n);
    store_some(out + i, x * c - y * s, n);
    store_some(out + half + i, y * c + x * s, n);
  });
}

template <typename T>
void rotate_neighbours(const T* in, const float* cosines, const float* sines, T* out, int64_t half) {
  const auto* cos = as<Float32>(static_cast<const void*>(cosines));
  const auto* sin = as<Float32>(static_cast<const void*>(sines));
  for_lanes(half, [&](int64_t i, int64_t n) {
    const int64_t n_first = 2 * n < kLanes ? 2 * n : kLanes, n_second = 2 * n - n_first;
    const Floats a = load_some(in + 2 * i, n_first);
    const Floats b = n_second > 0 ? load_some(in + 2 * i + n_first, n_second) : Floats{};
    const Floats x = every_other(a, b, 0), y = every_other(a, b, 1);
    const Floats c = load_some(cos + i, n), s = load_some(sin + i, n);
    const Floats turned_x = x * c - y * s, turned_y = y * c + x * s;
    store_some(out + 2 * i, interleaved(turned_x, turned_y, 0), n_first);
    if (n_second > 0)
      store_some(out + 2 * i + n_first, interleaved(turned_x, turned_y, kLanes / 2), n_second);
  });
}

template <typename T>
void rotate(const Rotation& rotation) {
  const int64_t half = rotation.rotary_dim / 2;
  for (int64_t row = 0; row < rotation.rows; ++row) {
    const T* in = as<T>(rotation.in) + row * rotation.in_stride;
    T* out = as<T>(rotation.out) + row * rotation.out_stride;
    const float *cos = rotation.cos + row * half, *sin = rotation.sin + row * half;
    if (rotation.interleaved)
      rotate_neighbours(in, cos, sin, out, half);
    else
      rotate_halves(in, cos, sin, out, half);
    for_lanes(rotation.head_dim - rotation.rotary_dim, [&](int64_t i, int64_t n) {
      store_some(out + rotation.rotary_dim + i, load_some(in + rotation.rotary_dim + i, n), n);
    });
  }
}

inline Floats activate(Floats x, Activation activation) {
  if (activation == Activation::kSilu) return x / (1.F + exponential(-(x < all(-87.F) ? all(-87.F) : x)));
  const Floats inner = 0.797884561F * (x + 0.044715F * x * x * x);  // √(2/π) (x + 0.044715 x³)
  return 0.5F * x * (1.F + hyperbolic_tangent(inner));
}

inline Floats clamped_swiglu(Floats gate, Floats up, float limit) {
  gate = smaller(gate, all(limit));
  up = smaller(larger(up, all(-limit)), all(limit));
  const Floats x = -1.702F * gate;
  return (up + 1.F) * gate / (1.F + exponential(smaller(x, all(87.F))));
}

template <typename T>
void gate(void* gate, const void* up, int64_t n_values, Activation activation, float limit) {
  T* g = as<T>(gate);
  const T* u = as<T>(up);
  if (activation == Activation::kClampedSwiglu) {
    for_lanes(n_values, [&](int64_t i, int64_t n) {
      store_some(g + i, clamped_swiglu(load_some(g + i, n), load_some(u + i, n), limit), n);
    });
    return;
  }
  for_lanes(n_values, [&](int64_t i, int64_t n) {
    store_some(g + i, activate(load_some(g + i, n), activation) * load_some(u + i, n), n);
  });
}

template <typename T>
void add(void* sum, const void* other, int64_t n_values) {
  T* s = as<T>(sum);
  const T* o = as<T>(other);
  for_lanes(n_values,
            [&](int64_t i, int64_t n) { store_some(s + i, load_some(s + i, n) + load_some(o + i, n), n); });
}

// Zero times a number is zero, and not a number where it is infinite or none.
template <typename T>
bool all_finite(const void* values, int64_t n_values) {
  Floats zeros{};
  for_lanes(n_values, [&](int64_t i, int64_t n) { zeros += load_some(as<T>(values) + i, n) * 0.F; });
  const float sum = sum_of(zeros);
  return sum == sum;
}

template <typename T>
void from_float(const float* from, void* to, int64_t n_values) {
  const auto* in = as<Float32>(static_cast<const void*>(from));
  for_lanes(n_values, [&](int64_t i, int64_t n) { store_some(as<T>(to) + i, load_some(in + i, n), n); });
}

void pair_columns(const void* rows, int64_t n, int64_t width, void* panel) {
  uint32_t* out = as<uint32_t>(panel);
  const int64_t n_pairs = width / 2;
  for (int64_t row = 0; row < n; ++row) {
    const auto* in = as<unsigned char>(rows) + row * width * 2;
    for (int64_t pair = 0; pair < n_pairs; ++pair)
      __builtin_memcpy(out + pair * kPanel + row, in + pair * 4, 4);
  }
  for (int64_t pair = 0; pair < n_pairs; ++pair)
    for (int64_t row = n; row < kPanel; ++row) out[pair * kPanel + row] = 0;
}

void pair_rows(const void* rows, int64_t n, int64_t width, void* panel) {
  const uint16_t* in = as<uint16_t>(rows);
  uint32_t* out = as<uint32_t>(panel);
  for (int64_t row = 0; row < kPanel; row += 2)
    for (int64_t i = 0; i < width; ++i) {
      const uint32_t first = row < n ? in[row * width + i] : 0U;
      const uint32_t second = row + 1 < n ? in[(row + 1) * width + i] : 0U;
      out[row / 2 * width + i] = first | (second << 16U);
    }
}

// Rows · kColumns sums stay in registers while the inner index runs.
template <int kRows, int kVectors>
inline void multiply_block(const PanelProduct& product, int64_t row, int64_t column) {
  Floats sums[kRows][kVectors] = {};
  const float* a = product.a + row * product.a_stride;
  const float* b = product.b + column;
  for (int64_t k = 0; k < product.inner; ++k, b += product.cols)
    for (int v = 0; v < kVectors; ++v) {
      const Floats right = load_vector<Floats>(b + v * kLanes);
      for (int r = 0; r < kRows; ++r) sums[r][v] += a[r * product.a_stride + k] * right;
    }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) {
      float* c = product.c + (row + r) * product.cols + column + v * kLanes;
      store_vector(c, product.add ? load_vector<Floats>(c) + sums[r][v] : sums[r][v]);
    }
}

// What is left of the columns beyond whole vectors.
inline void multiply_rest(const PanelProduct& product, int64_t column) {
  for (int64_t row = 0; row < product.rows; ++row)
    for (int64_t j = column; j < product.cols; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < product.inner; ++k)
        sum += product.a[row * product.a_stride + k] * product.b[k * product.cols + j];
      float& c = product.c[row * product.cols + j];
      c = product.add ? c + sum : sum;
    }
}

template <int kVectors>
inline void multiply_columns(const PanelProduct& product, int64_t column) {
  int64_t row = 0;
  for (; row + 4 <= product.rows; row += 4) multiply_block<4, kVectors>(product, row, column);
  for (; row < product.rows; ++row) multiply_block<1, kVectors>(product, row, column);
}

void multiply_panel(const PanelProduct& product) {
  int64_t column = 0;
  for (; column + 2 * kLanes <= product.cols; column += 2 * kLanes) multiply_columns<2>(product, column);
  for (; column + kLanes <= product.cols; column += kLanes) multiply_columns<1>(product, column);
  if (column < product.cols) multiply_rest(product, column);
}

// Products of kRows rows of x with kOuter rows of weights. Several rows of weights at once are several
// streams from memory, which one alone would not keep busy; their next lines are asked for ahead of time.
template <typename T, int kRows, int kOuter>
inline void thin_block(const ThinProduct& product, int64_t row, int64_t outer) {
  constexpr int64_t kAhead = 1024 / static_cast<int64_t>(sizeof(T));
  const float* x = product.x + row * product.inner;
  const T* w = as<T>(product.weight) + outer * product.weight_stride;
  Floats sums[kOuter][kRows] = {};
  int64_t i = 0;
  for (; i + 2 * kLanes <= product.inner; i += 2 * kLanes) {
    // Near the end of these rows, the beginning of the next ones.
    const int64_t ahead =
        i + kAhead < product.inner ? kAhead : kOuter * product.weight_stride + kAhead - product.inner;
    for (int j = 0; j < kOuter; ++j) {
      const T* from = w + j * product.weight_stride + i;
      __builtin_prefetch(from + ahead);
      if (sizeof(T) * 2 * kLanes > 64) __builtin_prefetch(from + ahead + kLanes);
      const Floats w0 = T::load(from), w1 = T::load(from + kLanes);
      for (int r = 0; r < kRows; ++r) {
        sums[j][r] += w0 * load_vector<Floats>(x + r * product.inner + i);
        sums[j][r] += w1 * load_vector<Floats>(x + r * product.inner + i + kLanes);
      }
    }
  }
  for (; i < product.inner; i += kLanes) {
    const int64_t n = product.inner - i < kLanes ? product.inner - i : kLanes;
    for (int j = 0; j < kOuter; ++j) {
      const Floats w0 = load_some(w + j * product.weight_stride + i, n);
      for (int r = 0; r < kRows; ++r)
        sums[j][r] += w0 * load_some(as<Float32>(static_cast<const void*>(x + r * product.inner + i)), n);
    }
  }
  for (int j = 0; j < kOuter; ++j)
    for (int r = 0; r < kRows; ++r) product.y[(row + r) * product.y_stride + outer + j] = sum_of(sums[j][r]);
}

template <typename T, int kRows>
inline void thin_rows(const ThinProduct& product, int64_t row) {
  constexpr int kOuter =
      kRows == 1 ? 8 : static_cast<int>(kRegisters) / 2 / kRows;  // sums in half the registers
  int64_t outer = product.first;
  for (; outer + kOuter <= product.last; outer += kOuter) thin_block<T, kRows, kOuter>(product, row, outer);
  for (; outer < product.last; ++outer) thin_block<T, kRows, 1>(product, row, outer);
}

template <typename T>
void thin_product(const ThinProduct& product) {
  int64_t row = 0;
  for (; row + 4 <= product.rows; row += 4) thin_rows<T, 4>(product, row);
  switch (product.rows - row) {
    case 3:
      return thin_rows<T, 3>(product, row);
    case 2:
      return thin_rows<T, 2>(product, row);
    case 1:
      return thin_rows<T, 1>(product, row);
    default:
      return;
  }
}

template <typename T>
void weighted_sum(const WeightedSum& sum) {
  for (int64_t at = 0; at < sum.width; at += kLanes) {
    const int64_t n_columns = sum.width - at < kLanes ? sum.width - at : kLanes;
    for (int64_t out = 0; out < sum.n_out; ++out) {
      const float* weights = sum.weights + out * sum.weights_stride;
      const T* rows = as<T>(sum.rows) + at;
      Floats even{}, odd{};
      int64_t j = 0;
      for (; j + 2 <= sum.n; j += 2) {
        even += weights[j] * load_some(rows + j * sum.width, n_columns);
        odd += weights[j + 1] * load_some(rows + (j + 1) * sum.width, n_columns);
      }
      if (j < sum.n) even += weights[j] * load_some(rows + j * sum.width, n_columns);
      store_some(as<Float32>(static_cast<void*>(sum.out + out * sum.width + at)), even + odd, n_columns);
    }
  }
}

// Columns [column, column + kWidth · kLanes) of a head's state and one token: they depend on no other column.
template <int kWidth>
void learn_columns(const DeltaRule& r, int64_t token, int64_t column) {
  const float* key = r.keys + token * r.key_stride;
  const float* query = r.queries + token * r.key_stride;
  const float* value = r.values + token * r.value_stride + column;
  const float decay = r.decay[token * r.rate_stride], update = r.update[token * r.rate_stride];
  Floats learned[kWidth] = {}, asked[kWidth] = {};
  for (int64_t i = 0; i < r.key_dim; ++i) {
    const float* row = r.memory + i * r.value_dim + column;
    const float weight = decay * key[i];
    for (int w = 0; w < kWidth; ++w) learned[w] += weight * load_vector<Floats>(row + w * kLanes);
  }
  for (int w = 0; w < kWidth; ++w)
    learned[w] = update * (load_vector<Floats>(value + w * kLanes) - learned[w]);
  for (int64_t i = 0; i < r.key_dim; ++i) {
    float* row = r.memory + i * r.value_dim + column;
    for (int w = 0; w < kWidth; ++w) {
      const Floats s = decay * load_vector<Floats>(row + w * kLanes) + key[i] * learned[w];
      store_vector(row + w * kLanes, s);
      asked[w] += query[i] * s;
    }
  }
  float* out = r.out + token * r.value_stride + column;
  for (int w = 0; w < kWidth; ++w) store_vector(out + w * kLanes, asked[w]);
}

// The columns that fill no vector.
void learn_column(const DeltaRule& r, int64_t token, int64_t column) {
  const float* key = r.keys + token * r.key_stride;
  const float* query = r.queries + token * r.key_stride;
  const float decay = r.decay[token * r.rate_stride];
  float known = 0, asked = 0;
  for (int64_t i = 0; i < r.key_dim; ++i) known += decay * key[i] * r.memory[i * r.value_dim + column];
  const float learned = r.update[token * r.rate_stride] * (r.values[token * r.value_stride + column] - known);
  for (int64_t i = 0; i < r.key_dim; ++i) {
    float& s = r.memory[i * r.value_dim + column];
    s = decay * s + key[i] * learned;
    asked += query[i] * s;
  }
  r.out[token * r.value_stride + column] = asked;
}

void delta_rule(const DeltaRule& r) {
  constexpr int kWidth = 4;
  int64_t column = 0;
  for (; column + kWidth * kLanes <= r.value_dim; column += kWidth * kLanes)
    for (int64_t token = 0; token < r.n; ++token) learn_columns<kWidth>(r, token, column);
  for (; column + kLanes <= r.value_dim; column += kLanes)
    for (int64_t token = 0; token < r.n; ++token) learn_columns<1>(r, token, column);
  for (; column < r.value_dim; ++column)
    for (int64_t token = 0; token < r.n; ++token) learn_column(r, token, column);
}

template <typename T>
ElementKernels element_kernels() {
  return {rms_norm<T>,
          rotate<T>,
          gate<T>,
          add<T>,
          all_finite<T>,
          to_float<T>,
          from_float<T>,
          softmax<T>,
          thin_product<T>,
          wide_product<T>,
          weighted_sum<T>,
          transpose_rows<T, kTileRows>,
          transpose_rows<T, kPanel>};
}

}  // namespace

Kernels KEYSCOPE_KERNELS();

Kernels KEYSCOPE_KERNELS() {
  return {KEYSCOPE_LEVEL,
          kTileRows,
          element_kernels<Float32>(),
          element_kernels<BFloat16>(),
          element_kernels<Float16>(),
          multiply_panel,
          add_columns,
          delta_rule,
          pair_columns,
          pair_rows};
}

}  // namespace keyscope::capture::kernels
