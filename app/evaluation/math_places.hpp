#pragma once

#include <array>
#include <complex>
#include <cstddef>
#include <optional>
#include <string_view>

namespace keyscope::evaluation {

// How many places an expression is evaluated at.
inline constexpr std::size_t kValuePlaces = 5;
using MathValues = std::array<std::complex<double>, kValuePlaces>;

// The same number at all places.
MathValues everywhere(std::complex<double> number);

// A variable's values: of its own at each place, between 1/2 and 3/2, the same for the same name on every
// platform.
MathValues variable(std::string_view name);

// operation(left, right) at each place.
template <typename Operation>
MathValues combined(MathValues left, const MathValues& right, const Operation& operation) {
  for (std::size_t place = 0; place < kValuePlaces; ++place)
    left[place] = operation(left[place], right[place]);
  return left;
}

// base ^ exponent; of whole exponents up to 1024 by multiplication, so that whole numbers stay whole.
std::complex<double> power(std::complex<double> base, std::complex<double> exponent);

// None where a value is no whole number from 0 to 170, more than which a double does not hold.
std::optional<MathValues> factorial(MathValues values);

// Whether all values are numbers.
bool finite(const MathValues& values);

// Whether all values agree, each to 1e-9 of the larger. Differences are also passed over which rounding alone
// makes where terms cancel: up to 1e-14 where both are the same at all places, as they are without variables,
// else up to 1e-9.
bool agree(const MathValues& first, const MathValues& second);

}  // namespace keyscope::evaluation
