#pragma once

#include <string_view>

namespace keyscope::evaluation {

// F1 of ROUGE-L on the level of summaries (Lin 2004, section 3.2), as PyPI's `rouge` 1.0.1 computes it:
// sentences end at full stops, words are what spaces part, and every word counts once. For each sentence of
// the reference, the words of its longest common subsequences with the sentences of the prediction are
// gathered; their number over the words of the reference is the recall, over those of the prediction the
// precision. 0 where either text has no sentence.
double rouge_l(std::string_view prediction, std::string_view reference);

}  // namespace keyscope::evaluation
