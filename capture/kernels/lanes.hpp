#pragma once

// A vector register of float32 lanes, and how each element type becomes one. In an anonymous namespace on
// purpose: every level of x86-64 has its own. What is wider than a register the compiler keeps in memory, an
// order of magnitude slower.

#include <cstdint>

namespace keyscope::capture::kernels {
namespace {  // NOLINT(google-build-namespaces)

using std::int32_t;
using std::int64_t;
using std::uint16_t;
using std::uint32_t;

#if defined(__AVX512F__)
inline constexpr int64_t kLanes = 16, kRegisters = 32;
#elif defined(__AVX__)
inline constexpr int64_t kLanes = 8, kRegisters = 16;
#else
inline constexpr int64_t kLanes = 4, kRegisters = 16;
#endif

using Floats = float __attribute__((vector_size(4 * kLanes)));
using Ints = int32_t __attribute__((vector_size(4 * kLanes)));
using Words = uint32_t __attribute__((vector_size(4 * kLanes)));
using Shorts = uint16_t __attribute__((vector_size(2 * kLanes)));

template <typename To, typename From>
inline To cast(const From& from) {
  return __builtin_bit_cast(To, from);
}

template <typename V>
inline V load_vector(const void* from) {
  V vector;
  __builtin_memcpy(&vector, from, sizeof vector);
  return vector;
}

template <typename V>
inline void store_vector(void* to, const V& vector) {
  __builtin_memcpy(to, &vector, sizeof vector);
}

inline Floats all(float value) { return value - Floats{}; }  // + would cost an instruction: -0 + 0 is 0

inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }
inline Floats smaller(Floats a, Floats b) { return a < b ? a : b; }

inline float sum_of(Floats v) {
  float total[kLanes];
  store_vector(total, v);
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    for (int64_t i = 0; i < width; ++i) total[i] += total[i + width];
  return total[0];
}

inline float max_of(Floats v) {
  float most[kLanes];
  store_vector(most, v);
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    for (int64_t i = 0; i < width; ++i) most[i] = most[i] > most[i + width] ? most[i] : most[i + width];
  return most[0];
}

// Adds each lane to a float64 of its own.
inline void add_to_doubles(Floats v, double* sums) {
  float lanes[kLanes];
  store_vector(lanes, v);
  for (int64_t i = 0; i < kLanes; ++i) sums[i] += static_cast<double>(lanes[i]);
}

// The numbers 0 … kLanes - 1 as template arguments.
template <int... kIndex>
struct Indices {};
template <int kCount, int... kIndex>
struct CountedIndices : CountedIndices<kCount - 1, kCount - 1, kIndex...> {};
template <int... kIndex>
struct CountedIndices<0, kIndex...> {
  using Type = Indices<kIndex...>;
};
using EveryLane = CountedIndices<static_cast<int>(kLanes)>::Type;

// The lanes of two vectors in turns: of their first halves, or the second ones.
template <int kHalf, int... kIndex>
inline Floats zipped(Floats a, Floats b, Indices<kIndex...> /*lanes*/) {
  constexpr int kN = static_cast<int>(kLanes), kFirst = kHalf * kN / 2;
  return __builtin_shufflevector(a, b, (kIndex % 2 * kN + kFirst + kIndex / 2)...);
}

// Lane j of vector i becomes lane i of vector j.
inline void transpose(Floats (&v)[kLanes]) {
  for (int64_t n = 1; n < kLanes; n *= 2) {
    Floats turned[kLanes];
    for (int64_t i = 0; i < kLanes / 2; ++i) {
      turned[2 * i] = zipped<0>(v[i], v[i + kLanes / 2], EveryLane{});
      turned[2 * i + 1] = zipped<1>(v[i], v[i + kLanes / 2], EveryLane{});
    }
    for (int64_t i = 0; i < kLanes; ++i) v[i] = turned[i];
  }
}

// e^x for x from -87 to 88, within two units of the last place: x = n ln 2 + r, and a polynomial in r.
inline Floats exponential(Floats x) {
  const Floats shifter = all(12582912.F);  // 1.5 · 2^23: adding it rounds to a whole number
  x = larger(x, all(-87.F));
  const Floats shifted = x * 1.44269504F + shifter;
  const Floats n = shifted - shifter;
  const Floats r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  Floats p = all(1.9875691500e-4F);
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.F;
  const Ints exponent = cast<Ints>(shifted) << 23;  // what the shifter itself adds is shifted out
  return cast<Floats>(cast<Ints>(p) + exponent);
}

// tanh x = 1 - 2 / (e^2x + 1)
inline Floats hyperbolic_tangent(Floats x) {
  const Floats bounded = larger(x < all(20.F) ? x : all(20.F), all(-20.F));
  return 1.F - 2.F / (exponential(2.F * bounded) + 1.F);
}

// An element type: how a vector of them becomes float32 and back.
struct Float32 {
  float value;
  static Floats load(const Float32* from) { return load_vector<Floats>(from); }
  static void store(Float32* to, Floats v) { store_vector(to, v); }
};

struct BFloat16 {
  uint16_t bits;
  static Floats load(const BFloat16* from) {
    return cast<Floats>(__builtin_convertvector(load_vector<Shorts>(from), Words) << 16U);
  }
  // To the nearest, ties to even; what is not a number stays one.
  static void store(BFloat16* to, Floats v) {
    const Words bits = cast<Words>(v);
    const Words rounded = (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U;
    const Words kept = v == v ? rounded : (bits >> 16U) | 0x40U;
    store_vector(to, __builtin_convertvector(kept, Shorts));
  }
};

struct Float16 {
  _Float16 value;
  static Floats load(const Float16* from) {
    Floats v;
    for (int64_t i = 0; i < kLanes; ++i) v[i] = static_cast<float>(from[i].value);
    return v;
  }
  static void store(Float16* to, Floats v) {
    for (int64_t i = 0; i < kLanes; ++i) to[i].value = static_cast<_Float16>(v[i]);
  }
};

// The first `n` of the lanes; the others are zero, or left as they are.
template <typename T>
inline Floats load_some(const T* from, int64_t n) {
  if (n >= kLanes) return T::load(from);
  T whole[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) whole[i] = from[i];
  return T::load(whole);
}

template <typename T>
inline void store_some(T* to, Floats v, int64_t n) {
  if (n >= kLanes) return T::store(to, v);
  T whole[kLanes];
  T::store(whole, v);
  for (int64_t i = 0; i < n; ++i) to[i] = whole[i];
}

template <typename T>
const T* as(const void* p) {
  return static_cast<const T*>(p);
}
template <typename T>
T* as(void* p) {
  return static_cast<T*>(p);
}

// Calls `body(offset, count)` for every vector of n elements; the last count may be smaller.
template <typename Body>
inline void for_lanes(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, kLanes);
  if (i < n) body(i, n - i);
}

template <typename T>
void to_float(const void* from, float* to, int64_t n_values) {
  auto* out = as<Float32>(static_cast<void*>(to));
  for_lanes(n_values, [&](int64_t i, int64_t n) { store_some(out + i, load_some(as<T>(from) + i, n), n); });
}

}  // namespace
}  // namespace keyscope::capture::kernels
