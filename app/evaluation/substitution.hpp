#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace keyscope::evaluation {

// A regular expression and what all its matches become, as Python's `re.sub` does it, through PCRE2 with
// Unicode's classes.
class Substitution {
 public:
  //   expression: PCRE2's syntax; a dot takes all but new lines
  //   replacement: $1, $2, … stand for groups, $$ for a dollar sign
  //   throws InvalidInput, with PCRE2's words, on an expression that does not compile
  Substitution(const std::string& expression, std::string replacement);
  ~Substitution();
  Substitution(Substitution&&) noexcept;

  //   text: UTF-8, ill-formed bytes are read as U+FFFD
  //   throws InvalidInput where matching gives up
  std::string apply(std::string_view text) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

// Every occurrence of `from`, which is not empty, from the left.
std::string replace_all(std::string text, std::string_view from, std::string_view to);

}  // namespace keyscope::evaluation
