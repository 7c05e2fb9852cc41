#pragma once

#include "app/evaluation/ruler_prompt.hpp"

namespace keyscope::evaluation {

// The words that are counted, one a line: assets/eval/words.txt.
extern const char* const words_txt;

// `vt`: one chain of four hops from a number, its five assignments among lines of noise, after an example of
// up to 500 tokens with its answer. Units are lines of noise.
GrowingPrompt ruler_chain(const RulerSample& sample);

// `cwe`: a numbered list in which ten words stand 30 times and all others 3 times, after an example of 40
// words with its answer. Below 4,096 tokens, and for tokenizers of which the shortest such prompt fills seven
// eighths of the length, 6 times and once, after one of 20 words. Units are different words, of which none
// contains one of the ten.
GrowingPrompt ruler_common_words(const RulerSample& sample);

// `fwe`: coded words of six letters, the k-th of which stands floor(n / (k² zeta(2))) times, but for the
// first, which is replaced by dots; the second to fourth are asked for. Units are n.
GrowingPrompt ruler_frequent_words(const RulerSample& sample);

}  // namespace keyscope::evaluation
