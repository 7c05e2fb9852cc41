#pragma once

#include <string_view>

namespace keyscope::evaluation {

// Both compare words as `normalised_words` makes them of texts: lower case, no punctuation, no articles.

// 1 where the answer, its words one space apart, occurs in the output, be it in the middle of a longer word;
// else the share of its words that stand there anywhere. 1 for an answer without words.
double lookup_recall(std::string_view output, std::string_view answer);

// 1 where the first words of the output's first line that has any are the answer's, else 0.
double lookup_exact(std::string_view output, std::string_view answer);

}  // namespace keyscope::evaluation
