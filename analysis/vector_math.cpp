#include "analysis/vector_math.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "analysis/per_processor.hpp"

namespace keyscope::analysis {

namespace {

// log 2 as a sum of two, of which the first has so few digits that its multiples by exponents are exact.
constexpr double kLog2High = 0x1.62e42fefa38p-1;
constexpr double kLog2Low = 0x1.ef35793c7673p-45;
constexpr double kInverseLog2 = 0x1.71547652b82fep+0;
constexpr double kRounding = 0x1.8p52;  // added to a number, it leaves its integer in the lowest bits
constexpr double kLeast = -708;         // whose exponential is a normal number
constexpr int kMantissaBits = 52;

// exp by 2^n exp(r), |r| <= log(2)/2, the second by its Taylor series.
[[gnu::always_inline]] inline void exponential(FourDoubles& x) {
  const FourDoubles rounded = x * kInverseLog2 + kRounding;
  const FourDoubles n = rounded - kRounding;
  const FourDoubles r = (x - n * kLog2High) - n * kLog2Low;
  constexpr double kInverseFactorials[] = {
      1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
      1.0 / 120,       1.0 / 24,       1.0 / 6,       1.0 / 2,      1.0,         1.0};
  FourDoubles sum = FourDoubles{} + 1.0 / 6227020800;
  for (const double coefficient : kInverseFactorials) sum = sum * r + coefficient;
  const FourIntegers exponent = reinterpret_cast<FourIntegers>(rounded) << kMantissaBits;
  x = reinterpret_cast<FourDoubles>(reinterpret_cast<FourIntegers>(sum) + exponent);
}

// exp(x), or zero where that is no normal number.
[[gnu::always_inline]] inline void exponential_or_zero(FourDoubles& x) {
  const auto tiny = x < kLeast;
  x = tiny ? FourDoubles{} : x;
  exponential(x);
  x = tiny ? FourDoubles{} : x;
}

// Σ s^(2k) / (2k + 1), times 2 s: log((1 + s) / (1 - s)) for |s| <= 0.172.
[[gnu::always_inline]] inline void log_of_ratio(FourDoubles& s) {
  const FourDoubles square = s * s;
  FourDoubles sum = FourDoubles{} + 1.0 / 23;
  for (const double odd : {21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0})
    sum = sum * square + 1 / odd;
  s = 2 * s + 2 * s * (square * sum);
}

KEYSCOPE_PER_PROCESSOR
double add_exponentials(const double* numbers, std::size_t n, double shift, double* results) {
  FourDoubles sums[2] = {};
  std::size_t i = 0;
  for (; i + kFour <= n; i += kFour) {
    FourDoubles x;
    std::memcpy(&x, numbers + i, sizeof x);
    x -= shift;
    exponential_or_zero(x);
    std::memcpy(results + i, &x, sizeof x);
    sums[i / kFour % 2] += x;
  }
  if (i < n) {
    FourDoubles x = FourDoubles{} + (kLeast - 1);
    for (std::size_t lane = 0; i + lane < n; ++lane) x[lane] = numbers[i + lane] - shift;
    exponential_or_zero(x);
    for (std::size_t lane = 0; i + lane < n; ++lane) results[i + lane] = x[lane];
    sums[0] += x;
  }
  const FourDoubles sum = sums[0] + sums[1];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// By log((1 + s) / (1 - s)): with s = w / (2 - w) where w is small, so that 1 - w is never formed; elsewhere
// 1 - w is taken apart into m 2^e, √½ <= m < √2.
[[gnu::always_inline]] inline void minus_log_of_rest_of(FourDoubles& w) {
  constexpr double kSmall = 0.29;
  constexpr auto kRootOfHalf = std::bit_cast<std::int64_t>(0x1.6a09e667f3bcdp-1);
  const FourDoubles rest = 1 - w;
  const FourIntegers bits = reinterpret_cast<FourIntegers>(rest);
  const FourIntegers power = (bits - kRootOfHalf) >> kMantissaBits;
  const FourDoubles mantissa = reinterpret_cast<FourDoubles>(bits - (power << kMantissaBits));
  // An integer in the lowest bits of a large number, as a number.
  const FourDoubles exponent =
      reinterpret_cast<FourDoubles>(power + std::bit_cast<std::int64_t>(kRounding)) - kRounding;
  const auto small = w < kSmall;
  FourDoubles s = (small ? w : 1 - mantissa) / (small ? 2 - w : 1 + mantissa);
  const FourDoubles e = small ? FourDoubles{} : exponent;
  log_of_ratio(s);
  w = (s - e * kLog2Low) - e * kLog2High;
}

KEYSCOPE_PER_PROCESSOR
void find_minus_logs(const double* numbers, std::size_t n, double* results) {
  std::size_t i = 0;
  for (; i + kFour <= n; i += kFour) {
    FourDoubles w;
    std::memcpy(&w, numbers + i, sizeof w);
    minus_log_of_rest_of(w);
    std::memcpy(results + i, &w, sizeof w);
  }
  if (i == n) return;
  FourDoubles w = {};
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
