#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "app/evaluation/haystack.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::evaluation {

// A key with the value that is to be found.
struct Needle {
  std::string key, value;
};

// A needle in a haystack before anything is cut.
struct NeedleCase {
  Haystack haystack;                // with more tokens than the longest length
  Needle needle;                    // which is asked for
  std::vector<Needle> distractors;  // of the same form
  std::vector<double> places;       // [0, 1) for each of them: at which of the haystack's sentence ends
  std::string needle_template;      // "{key}" and "{value}" are filled in
  std::string question_template;    // likewise; the value is what is to follow
};

struct NeedlePrompt {
  std::string text;
  std::vector<std::int32_t> ids;
  std::size_t n_words = 0;           // of the haystack that is left
  std::int64_t needle_token = 0;     // tokens of the haystack alone before the needle
  std::int64_t haystack_tokens = 0;  // of all of it, as it is left
};

// The template `form` with its placeholders filled in; what is filled in is taken as it is, also where it has
// braces of its own.
std::string filled(std::string_view form, const Needle& needle);

// The sentence end where a needle goes: the last one at or before depth_percent of the haystack's tokens, 0
// for its beginning. Tokens up to a sentence end are those of the text up to there by itself, without special
// ones.
std::size_t needle_place(const Haystack& haystack, double depth_percent,
                         const tokenizer::Tokenizer& tokenizer);

// The longest prompt of at most `length` tokens, special ones, needles and question included: as many of the
// haystack's words as fit, the last sentence cut if need be. Distractors stand at other sentence ends than
// the needle, as long as there are such.
//   near: the number of words of a similar prompt, to look there first; 0: none
//   throws UsageError where the needles and the question alone are too long
NeedlePrompt needle_prompt(const NeedleCase& about, std::int64_t length, double depth_percent,
                           const tokenizer::Tokenizer& tokenizer, std::size_t near = 0);

}  // namespace keyscope::evaluation
