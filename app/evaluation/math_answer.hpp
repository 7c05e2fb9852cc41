#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace keyscope::evaluation {

// Where a solution says its answer.
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

// Whether a solution's boxed answer is the right one as MATH's own scoring compares them: equal texts in
// hendrycks_normal. A solution that boxes nothing, or breaks off inside the box, has no exact match.
bool exact_match(std::string_view solution, std::string_view answer);

// Whether the answer that a solution states, boxed or not (stated_answer), is the right one, however it is
// written. Two answers are the same where
// - they are equal in hendrycks_normal or minerva_normal, or
// - they are the same whole number, to the last of its digits, or
// - their values agree (math_values of minerva_normal, without a percent sign): 1/2 is \frac{1}{2} is 0.5,
// and
//   x+1 is 1+x, or
// - they are lists of as many entries in the same brackets which are the same one by one: in their order
//   inside ( ) and [ ], in any order in braces or without brackets, or
// - they are the same word, whatever its case, with or without brackets around it: (C) is \text{C}.
// A comma that a space follows parts entries: 100, 200 is no number. Where there is such a one, a comma
// without space and with three digits behind it parts thousands: 100,000, 5 has two entries. What matches
// exactly matches flexibly.
bool flexible_match(std::string_view solution, std::string_view answer);

// The second part of it: whether two answers are the same.
bool same_answer(std::string_view first, std::string_view second);

}  // namespace keyscope::evaluation
