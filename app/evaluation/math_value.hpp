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

// The values of a LaTeX expression where its variables (letters and Greek letters) take values of their own
// at each place, between 1/2 and 3/2, the same for the same name; e, i and \pi are constants. Two rational
// expressions, roots or powers of such values that agree at all places are, but for a chance of about 10^-9
// each, the same function. Read are sums, products (with \cdot, \times, * or nothing), quotients (\frac,
// \dfrac, \tfrac, /), powers, roots (\sqrt, \sqrt[n]), factorials of whole numbers, absolute values in bars,
// brackets of all three kinds, decimals, and mixed numbers (a whole number in front of a fraction of whole
// numbers is added to it). None where the text is no such expression, or has no finite value.
std::optional<MathValues> math_values(std::string_view latex);

bool is_digit(char c);
bool is_letter(char c);  // of ASCII

// Goes through a LaTeX expression from left to right, over what writes nothing: white space, spacing
// commands, empty groups, \left and \right. The text must outlive it.
class MathScanner {
 public:
  explicit MathScanner(std::string_view text) : text_(text) {}

  // The next character that writes something; 0 at the end.
  char peek();

  // Whether the text goes on with `part`, which is then passed. A command is taken as a whole: "\cdots" is
  // not "\cdot".
  bool take(std::string_view part);
  void take_one() { ++at_; }  // the character that `peek` gave

  // Digits that stand here without anything between them; empty where there are none.
  //   with_dots: decimal points among them too
  //   most: of how many characters
  std::string_view take_digits(bool with_dots, std::size_t most = std::string_view::npos);
  // How many letters stand here without anything between them.
  std::size_t letters_here() const;

  // All that is left.
  std::string_view rest() const { return text_.substr(at_); }

  // Where it stands, to come back to.
  std::size_t place() const { return at_; }
  void return_to(std::size_t place) { at_ = place; }

 private:
  void skip_nothing();

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace keyscope::evaluation
