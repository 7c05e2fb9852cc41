#pragma once

#include <optional>
#include <string_view>

#include "app/evaluation/math_places.hpp"

namespace keyscope::evaluation {

// The values of a LaTeX expression where its variables (letters and Greek letters) take values of their own
// at each place, between 1/2 and 3/2, the same for the same name; e, i and \pi are constants. Two rational
// expressions, roots or powers of such values that agree at all places are, but for a chance of about 10^-9
// each, the same function. Read are sums, products (with \cdot, \times, * or nothing), quotients (\frac,
// \dfrac, \tfrac, /), powers, roots (\sqrt, \sqrt[n]), factorials of whole numbers, absolute values in bars,
// brackets of all three kinds, decimals, and mixed numbers (a whole number in front of a fraction of whole
// numbers is added to it). None where the text is no such expression, or has no finite value.
std::optional<MathValues> math_values(std::string_view latex);

}  // namespace keyscope::evaluation
