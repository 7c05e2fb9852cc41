#include "app/evaluation/math_places.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "analysis/splitmix.hpp"

namespace keyscope::evaluation {

using Complex = std::complex<double>;

MathValues everywhere(Complex number) {
  MathValues values;
  values.fill(number);
  return values;
}

// By the name's FNV-1a hash.
MathValues variable(std::string_view name) {
  std::uint64_t state = 0xCBF29CE484222325;
  for (const char c : name) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  MathValues values;
  for (Complex& value : values)
    value = 0.5 + analysis::unit_interval(analysis::splitmix(state += analysis::kSplitmixStep));
  return values;
}

Complex power(Complex base, Complex exponent) {
  const bool whole = exponent.imag() == 0 && exponent.real() == std::round(exponent.real());
  if (whole && std::abs(exponent.real()) <= 1024) return std::pow(base, static_cast<int>(exponent.real()));
  return std::pow(base, exponent);
}

std::optional<MathValues> factorial(MathValues values) {
  for (Complex& value : values) {
    if (value.imag() != 0 || value.real() < 0 || value.real() != std::round(value.real()) ||
        value.real() > 170)
      return std::nullopt;
    value = std::tgamma(value.real() + 1);
  }
  return values;
}

bool finite(const MathValues& values) {
  return std::ranges::all_of(
      values, [](Complex value) { return std::isfinite(value.real()) && std::isfinite(value.imag()); });
}

bool agree(const MathValues& first, const MathValues& second) {
  constexpr double kTolerance = 1e-9, kRounding = 1e-14;
  const bool constants = first == everywhere(first[0]) && second == everywhere(second[0]);
  const double least = constants ? kRounding : kTolerance;
  for (std::size_t i = 0; i < kValuePlaces; ++i) {
    const double size = std::max(std::abs(first[i]), std::abs(second[i]));
    if (std::abs(first[i] - second[i]) > std::max(kTolerance * size, least)) return false;
  }
  return true;
}

}  // namespace keyscope::evaluation
