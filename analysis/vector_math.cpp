#include "analysis/vector_math.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "analysis/per_processor.hpp"

namespace keyscope::analysis {

namespace {

// Four lanes, fixed in the source, so that every vector width gives the same bits.
constexpr std::size_t kLanes = 4;
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));
using Integers = std::int64_t __attribute__((vector_size(kLanes * sizeof(std::int64_t))));

// log 2 as a sum of two, of which the first has so few digits that its multiples by exponents are exact.
constexpr double kLog2High = 0x1.62e42fefa38p-1;
constexpr double kLog2Low = 0x1.ef35793c7673p-45;
constexpr double kInverseLog2 = 0x1.71547652b82fep+0;
constexpr double kRounding = 0x1.8p52;  // added to a number, it leaves its integer in the lowest bits
constexpr double kLeast = -708;         // whose exponential is a normal number
constexpr int kMantissaBits = 52;

// exp by 2^n exp(r), |r| <= log(2)/2, the second by its Taylor series.
[[gnu::always_inline]] inline void exponential(Doubles& x) {
  const Doubles rounded = x * kInverseLog2 + kRounding;
  const Doubles n = rounded - kRounding;
  const Doubles r = (x - n * kLog2High) - n * kLog2Low;
  constexpr double kInverseFactorials[] = {
      1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
      1.0 / 120,       1.0 / 24,       1.0 / 6,       1.0 / 2,      1.0,         1.0};
  Doubles sum = Doubles{} + 1.0 / 6227020800;
  for (const double coefficient : kInverseFactorials) sum = sum * r + coefficient;
  const Integers exponent = reinterpret_cast<Integers>(rounded) << kMantissaBits;
  x = reinterpret_cast<Doubles>(reinterpret_cast<Integers>(sum) + exponent);
}

// exp(x), or zero where that is no normal number.
[[gnu::always_inline]] inline void exponential_or_zero(Doubles& x) {
  const auto tiny = x < kLeast;
  x = tiny ? Doubles{} : x;
  exponential(x);
  x = tiny ? Doubles{} : x;
}

// Σ s^(2k) / (2k + 1), times 2 s: log((1 + s) / (1 - s)) for |s| <= 0.172.
[[gnu::always_inline]] inline void log_of_ratio(Doubles& s) {
  const Doubles square = s * s;
  Doubles sum = Doubles{} + 1.0 / 23;
  for (const double odd : {21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0})
    sum = sum * square + 1 / odd;
  s = 2 * s + 2 * s * (square * sum);
}

KEYSCOPE_PER_PROCESSOR
double add_exponentials(const double* numbers, std::size_t n, double shift, double* results) {
  Doubles sums[2] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Doubles x;
    std::memcpy(&x, numbers + i, sizeof x);
    x -= shift;
    exponential_or_zero(x);
    std::memcpy(results + i, &x, sizeof x);
    sums[i / kLanes % 2] += x;
  }
  if (i < n) {
    Doubles x = Doubles{} + (kLeast - 1);
    for (std::size_t lane = 0; i + lane < n; ++lane) x[lane] = numbers[i + lane] - shift;
    exponential_or_zero(x);
    for (std::size_t lane = 0; i + lane < n; ++lane) results[i + lane] = x[lane];
    sums[0] += x;
  }
  const Doubles sum = sums[0] + sums[1];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// By log((1 + s) / (1 - s)): with s = w / (2 - w) where w is small, so that 1 - w is never formed; elsewhere
// 1 - w is taken apart into m 2^e, √½ <= m < √2.
[[gnu::always_inline]] inline void minus_log_of_rest_of(Doubles& w) {
  constexpr double kSmall = 0.29;
  constexpr auto kRootOfHalf = std::bit_cast<std::int64_t>(0x1.6a09e667f3bcdp-1);
  const Doubles rest = 1 - w;
  const Integers bits = reinterpret_cast<Integers>(rest);
  const Integers power = (bits - kRootOfHalf) >> kMantissaBits;
  const Doubles mantissa = reinterpret_cast<Doubles>(bits - (power << kMantissaBits));
  // An integer in the lowest bits of a large number, as a number.
  const Doubles exponent =
      reinterpret_cast<Doubles>(power + std::bit_cast<std::int64_t>(kRounding)) - kRounding;
  const auto small = w < kSmall;
  Doubles s = (small ? w : 1 - mantissa) / (small ? 2 - w : 1 + mantissa);
  const Doubles e = small ? Doubles{} : exponent;
  log_of_ratio(s);
  w = (s - e * kLog2Low) - e * kLog2High;
}

KEYSCOPE_PER_PROCESSOR
void find_minus_logs(const double* numbers, std::size_t n, double* results) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Doubles w;
    std::memcpy(&w, numbers + i, sizeof w);
    minus_log_of_rest_of(w);
    std::memcpy(results + i, &w, sizeof w);
  }
  if (i == n) return;
  Doubles w = {};
  for (std::size_t lane = 0; i + lane < n; ++lane) w[lane] = numbers[i + lane];
  minus_log_of_rest_of(w);
  for (std::size_t lane = 0; i + lane < n; ++lane) results[i + lane] = w[lane];
}

}  // namespace

double exponentials(std::span<const double> numbers, double shift, std::span<double> exponentials) {
  return add_exponentials(numbers.data(), numbers.size(), shift, exponentials.data());
}

void minus_log_of_rest(std::span<const double> numbers, std::span<double> results) {
  find_minus_logs(numbers.data(), numbers.size(), results.data());
}

}  // namespace keyscope::analysis
