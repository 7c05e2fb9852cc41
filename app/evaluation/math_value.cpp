#include "app/evaluation/math_value.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <numbers>
#include <string>

#include "analysis/splitmix.hpp"

namespace keyscope::evaluation {

namespace {

using Value = MathValues;
using Complex = std::complex<double>;

constexpr int kDeepest = 64;  // of brackets in brackets
constexpr std::array<std::string_view, 16> kGreek{"alpha",  "beta", "gamma", "delta", "epsilon", "theta",
                                                  "lambda", "mu",   "nu",    "xi",    "rho",     "sigma",
                                                  "tau",    "phi",  "psi",   "omega"};

// The text is no expression; thrown and caught in this file alone.
struct NoExpression {};

// Reads an expression from left to right, evaluating as it goes.
class Reader {
 public:
  explicit Reader(std::string_view text) : scan_(text) {}

  Value whole() {
    const Value value = sum();
    if (peek() != '\0') throw NoExpression{};
    return value;
  }

 private:
  Value sum();
  Value product();
  Value factor();
  Value postfixed();
  Value atom();
  Value bracketed(char close);
  Value command();
  Value number();
  Value argument();
  std::string_view digits_argument();
  Value letter();

  bool take(std::string_view part) { return scan_.take(part); }
  bool take_fraction() { return take("\\frac") || take("\\dfrac") || take("\\tfrac"); }
  char peek() { return scan_.peek(); }
  bool starts_factor();

  MathScanner scan_;
  int depth_ = 0;
  int bars_ = 0;
};

bool Reader::starts_factor() {
  const char next = peek();
  if (next == '|') return bars_ == 0;
  return is_digit(next) || is_letter(next) || next == '.' || next == '(' || next == '{' || next == '[' ||
         (next == '\\' && !scan_.rest().starts_with("\\}"));
}

Value Reader::sum() {
  if (++depth_ > kDeepest) throw NoExpression{};
  Value value = product();
  for (;;) {
    if (take("+"))
      value = combined(value, product(), std::plus<>());
    else if (take("-"))
      value = combined(value, product(), std::minus<>());
    else
      break;
  }
  --depth_;
  return value;
}

Value Reader::product() {
  Value value = factor();
  for (;;) {
    if (take("*") || take("\\cdot") || take("\\times"))
      value = combined(value, factor(), std::multiplies<>());
    else if (take("/") || take("\\div"))
      value = combined(value, factor(), std::divides<>());
    else if (starts_factor())
      value = combined(value, postfixed(), std::multiplies<>());
    else
      return value;
  }
}

Value Reader::factor() {
  double sign = 1;
  for (bool signs = true; signs;) {
    if (take("-"))
      sign = -sign;
    else
      signs = take("+");
  }
  return combined(everywhere(sign), postfixed(), std::multiplies<>());
}

Value Reader::postfixed() {
  Value value = atom();
  while (take("!")) {
    const auto product = factorial(value);
    if (!product) throw NoExpression{};
    value = *product;
  }
  if (!take("^")) return value;
  if (peek() == '^') throw NoExpression{};
  return combined(value, argument(), power);
}

// What a command or a power takes: a group in braces, or one digit, letter or command.
Value Reader::argument() {
  if (++depth_ > kDeepest) throw NoExpression{};
  const char next = peek();
  const bool digit = is_digit(next);
  if (!digit && next != '{' && next != '\\' && !is_letter(next)) throw NoExpression{};
  if (digit) scan_.take_one();
  const Value value = digit ? everywhere(next - '0') : atom();
  --depth_;
  return value;
}

Value Reader::atom() {
  const char next = peek();
  if (is_digit(next) || next == '.') return number();
  if (is_letter(next)) return letter();
  if (next == '\\') return command();
  constexpr std::string_view kOpen = "({[|", kClose = ")}]|";
  const std::size_t kind = kOpen.find(next);
  if (next == '\0' || kind == kOpen.npos) throw NoExpression{};
  return bracketed(kClose[kind]);
}

Value Reader::bracketed(char close) {
  scan_.take_one();
  const int bars = bars_;
  bars_ = close == '|' ? 1 : 0;
  Value value = sum();
  bars_ = bars;
  if (peek() != close) throw NoExpression{};
  scan_.take_one();
  if (close == '|')
    for (Complex& place : value) place = std::abs(place);
  return value;
}

Value Reader::letter() {
  if (scan_.letters_here() >= 3) throw NoExpression{};  // a word
  const char name = peek();
  scan_.take_one();
  if (name == 'e') return everywhere(std::numbers::e);
  if (name == 'i') return everywhere({0, 1});
  return variable({&name, 1});
}

Value Reader::command() {
  if (take_fraction()) {
    const Value numerator = argument();
    return combined(numerator, argument(), std::divides<>());
  }
  if (take("\\sqrt")) {
    const Value degree = peek() == '[' ? bracketed(']') : everywhere(2);
    const auto root = [](Complex radicand, Complex of) { return power(radicand, 1.0 / of); };
    return combined(argument(), degree, root);
  }
  if (take("\\pi")) return everywhere(std::numbers::pi);
  for (const std::string_view name : kGreek)
    if (take(std::string("\\").append(name))) return variable(name);
  throw NoExpression{};
}

// A numerator or a denominator of digits alone; empty where it is none, and nothing is taken.
std::string_view Reader::digits_argument() {
  const std::size_t before = scan_.place();
  const bool braces = take("{");
  const std::string_view digits = scan_.take_digits(false, braces ? std::string_view::npos : 1);
  if (!digits.empty() && (!braces || take("}"))) return digits;
  scan_.return_to(before);
  return {};
}

Value Reader::number() {
  const std::string digits(scan_.take_digits(true));
  const auto dots = std::ranges::count(digits, '.');
  if (dots > 1 || digits == ".") throw NoExpression{};
  double value = std::strtod(digits.c_str(), nullptr);
  const std::size_t behind = scan_.place();
  if (dots == 0 && take_fraction()) {
    const std::string_view numerator = digits_argument();
    const std::string_view denominator = numerator.empty() ? "" : digits_argument();
    if (denominator.empty())
      scan_.return_to(behind);
    else
      value += std::strtod(std::string(numerator).c_str(), nullptr) /
               std::strtod(std::string(denominator).c_str(), nullptr);
  }
  if (is_digit(peek())) throw NoExpression{};
  return everywhere(value);
}

}  // namespace

std::optional<MathValues> math_values(std::string_view latex) {
  try {
    const Value value = Reader(latex).whole();
    return finite(value) ? std::optional(value) : std::nullopt;
  } catch (const NoExpression&) {
    return std::nullopt;
  }
}

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

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

char MathScanner::peek() {
  skip_nothing();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool MathScanner::take(std::string_view part) {
  skip_nothing();
  if (!rest().starts_with(part)) return false;
  const bool cut = part.size() > 1 && rest().size() > part.size() && is_letter(rest()[part.size()]);
  if (cut) return false;
  at_ += part.size();
  return true;
}

std::string_view MathScanner::take_digits(bool with_dots, std::size_t most) {
  std::size_t n = 0;
  const std::string_view here = rest().substr(0, most);
  while (n < here.size() && (is_digit(here[n]) || (with_dots && here[n] == '.'))) ++n;
  at_ += n;
  return here.substr(0, n);
}

std::size_t MathScanner::letters_here() const {
  const std::string_view here = rest();
  return std::ranges::find_if_not(here, is_letter) - here.begin();
}

void MathScanner::skip_nothing() {
  constexpr std::array<std::string_view, 12> kNothing{"{}",  " ",   "\t",  "\n",  "\r",     "\\,",
                                                      "\\!", "\\;", "\\:", "\\ ", "\\left", "\\right"};
  const auto is_next = [&](std::string_view nothing) {
    return rest().starts_with(nothing) &&
           !(nothing.size() > 2 && rest().size() > nothing.size() && is_letter(rest()[nothing.size()]));
  };
  while (true) {
    const auto* const found = std::ranges::find_if(kNothing, is_next);
    if (found == kNothing.end()) return;
    at_ += found->size();
  }
}

}  // namespace keyscope::evaluation
