#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/evaluation/needle_prompt.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::evaluation {

// A line that says nothing.
inline constexpr std::string_view kRulerNoise =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";

// A prompt of RULER (arXiv 2404.06654) as text.
struct RulerText {
  std::string asked;                 // the user's turn, where there is a chat template
  std::string answer_prefix;         // what the model goes on from; begins with a space
  std::vector<std::string> outputs;  // that the answer is to contain

  bool operator==(const RulerText&) const = default;
};

// A prompt that can be made of any number of units: lines, words, documents.
struct GrowingPrompt {
  std::size_t least = 1, most = 1;                 // units
  std::function<RulerText(std::size_t n)> made{};  // the same for the same n
};

// What the generators of one prompt are given.
struct RulerSample {
  std::uint64_t seed;   // of this prompt: of seed, sample, length and task
  std::int64_t length;  // tokens of the prompt with those that are generated
  const tokenizer::Tokenizer& tokenizer;
};

// How a text becomes the ids that the model gets.
using EncodeRuler = std::function<std::vector<std::int32_t>(const RulerText&)>;

struct RulerPrompt {
  RulerText text;
  std::vector<std::int32_t> ids;
  std::size_t n_units = 0;
};

// A prompt of at most `most_tokens` tokens which would have more with one unit more, or has all units that
// there are; none where the least units have more.
//   near: the units of a similar prompt, to look there first; 0: none
std::optional<RulerPrompt> longest_prompt(const GrowingPrompt& growing, std::int64_t most_tokens,
                                          const EncodeRuler& encode, std::size_t near = 0);

// The entries of [0, n) in an order that the draws decide.
inline std::vector<std::size_t> shuffled(std::size_t n, Draws& draws) { return draws.different(n, n); }

}  // namespace keyscope::evaluation
