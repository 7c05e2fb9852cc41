#pragma once

#include <string_view>

namespace keyscope::evaluation {

// Both compare words as `normalised_words` makes them of texts: lower case, no punctuation, no articles.

// 1 where the answer's words stand in the output one after another, else the share of them that stand there
// anywhere. 1 for an answer without words.
double lookup_recall(std::string_view output, std::string_view answer);

// 1 where the first words of the output's first line that has any are the answer's, else 0.
double lookup_exact(std::string_view output, std::string_view answer);

}  // namespace keyscope::evaluation
