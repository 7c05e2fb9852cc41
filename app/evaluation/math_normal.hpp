#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/regex.hpp"

namespace keyscope::evaluation {

// Answers in LaTeX, brought to one way of writing. Both are the field's own definitions, with what they get
// wrong: scores are only comparable if all take the same.
// As MATH's own scoring compares answers: without spaces, line breaks, \left and \right, dollars, degrees,
// percent signs and units (from "\text{ " on); \frac, \sqrt and a/b with braces; what follows "x ="; 0.5 as a
// fraction. None where that definition fails on the text, such as a "\frac" at its end: two answers are then
// compared as they stand.
//   source: Hendrycks et al. (arXiv 2103.03874), github.com/hendrycks/math, math_equivalence.py; equal to
//   `strip_string` of hendrycks_math in the lm-evaluation-harness 0.4.13
std::optional<std::string> hendrycks_normal(std::string_view answer);

// As Minerva's scoring compares them: what follows the last equals sign, of that what stands between dollar
// signs, without units, articles, spaces and the commands that only change the look; \frac and \sqrt with
// braces; no commas between thousands.
//   source: Lewkowycz et al. (arXiv 2206.14858), appendix D.1; equal to `normalize_final_answer` of
//   minerva_math in the lm-evaluation-harness 0.4.13, which keeps units out of the names of commands ("ft"
//   out of \left) and keeps tuples of digits apart
std::string minerva_normal(std::string_view answer);

// A regular expression and what all its matches become, as Python's `re.sub` does it.
class Substitution {
 public:
  //   expression: Python's syntax
  //   replacement: $1 to $9 stand for groups, $$ for a dollar sign
  //   throws InvalidInput on an expression that does not compile
  Substitution(const std::string& expression, std::string replacement)
      : expression_(expression, Regex::Syntax::kPython), replacement_(std::move(replacement)) {}

  //   text: UTF-8, ill-formed bytes are read as U+FFFD
  //   throws InvalidInput where matching gives up
  std::string apply(std::string_view text) const;

 private:
  Regex expression_;
  std::string replacement_;
};

// Every occurrence of `from`, which is not empty, from the left.
std::string replace_all(std::string text, std::string_view from, std::string_view to);

}  // namespace keyscope::evaluation
