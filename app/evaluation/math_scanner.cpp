#include "app/evaluation/math_scanner.hpp"

#include <algorithm>
#include <array>

namespace keyscope::evaluation {

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
  return static_cast<std::size_t>(std::ranges::find_if_not(here, is_letter) - here.begin());
}

void MathScanner::skip_nothing() {
  constexpr std::array<std::string_view, 12> kNothing{"{}",  " ",   "\t",  "\n",  "\r",     "\\,",
                                                      "\\!", "\\;", "\\:", "\\ ", "\\left", "\\right"};
  const auto is_next = [&](std::string_view nothing) {
    return rest().starts_with(nothing) &&
           !(nothing.size() > 2 && rest().size() > nothing.size() && is_letter(rest()[nothing.size()]));
  };
  for (const auto* found = kNothing.end();
       (found = std::ranges::find_if(kNothing, is_next)) != kNothing.end();)
    at_ += found->size();
}

}  // namespace keyscope::evaluation
