#pragma once

#include <string_view>

namespace keyscope::evaluation {

// 100 · (1 - d / (n + m)), rounded half to even, with d = n + m - 2 L and L the length of the longest common
// subsequence of the two texts' n and m code points: `fuzz.ratio` of fuzzywuzzy on python-Levenshtein. 100
// for equal texts, also empty ones. Takes n · m steps and memory for m numbers.
int edit_similarity(std::string_view first, std::string_view second);

}  // namespace keyscope::evaluation
