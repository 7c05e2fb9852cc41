#pragma once

#include <cstddef>
#include <string_view>

namespace keyscope::evaluation {

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
