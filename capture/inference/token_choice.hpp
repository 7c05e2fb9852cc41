#pragma once

#include <cstdint>
#include <span>

namespace keyscope::capture {

// How the next token is taken from the logits.
struct Sampling {
  double temperature = 0;  // 0: the likeliest token; else logits are divided by it
  double top_p = 1;  // 0 < top_p <= 1: drawn among the fewest likeliest tokens that hold this probability
  std::uint64_t seed = 0;

  bool operator==(const Sampling&) const = default;
};

// Whether a sampling can be.
//   throws UsageError naming the value and what was expected
void check_sampling(const Sampling& sampling);

// The next token. Draw t takes the t-th number of SplitMix64's stream from the seed, so that it is the same
// whatever was run before; tokens are ranked by probability, equal ones by id, and the one is taken in whose
// share of the cumulated probability the number falls.
//   logits: (vocab), finite; draw: how many tokens of this text were chosen before
//   source: Holtzman et al., The Curious Case of Neural Text Degeneration (arXiv 1904.09751), Section 3.1
std::int32_t choose_token(std::span<const float> logits, const Sampling& sampling, std::int64_t draw);

}  // namespace keyscope::capture
