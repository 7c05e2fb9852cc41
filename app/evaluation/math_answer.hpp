#pragma once

// Where a solution says its answer.

#include <optional>
#include <string>
#include <string_view>

namespace keyscope::evaluation {

// What stands in the last \boxed{…}, or in the last \fbox{…} of a text without \boxed, braces balanced; of
// "\boxed 5", what follows up to a dollar sign or the line's end. None where the last one is not closed: a
// text that ends too early.
//   source: Hendrycks et al., MATH (arXiv 2103.03874), where solutions state their answers so
std::optional<std::string> boxed_answer(std::string_view text);

// The answer wherever it is: boxed; else what follows the last "answer is" or "answer:" up to the end of the
// sentence, which may begin on a new line with a formula; else the last formula; else the last number. None
// where there is none of these. A formula stands in $…$, $$…$$, \(…\) or \[…\]; those of an announced
// sentence come back between single dollar signs. An escaped \$ is the currency's sign.
//   source: a number is what `flexible-extract` of the lm-evaluation-harness takes for one, if it has a
//   digit: the characters $0-9., in a row, with a minus sign in front or not
std::optional<std::string> stated_answer(std::string_view text);

}  // namespace keyscope::evaluation
