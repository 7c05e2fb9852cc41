#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "app/session/head_points.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::session {

// What tokens can be shaded by.
enum class TokenShade { kNone, kScore, kAttention, kPerQuery };

struct ShadeChoice {
  TokenShade shade;
  const char* id;
  const char* label;
  const char* meaning;  // one line for a tooltip
};
std::span<const ShadeChoice> shade_choices();

// The values of all tokens that were seen by the end of a block, NaN where there is none: the very ones that
// `token_facts` gives for each.
//   block: of `points`
std::vector<double> token_values(const recording::RecordingInfo& info, const HeadPoints& points,
                                 std::int64_t block, TokenShade shade);

// How strongly each is shaded, 0 to 1: the share of the other values that lie below it, equal ones counted
// half, since attention is so unequal that on any other scale a few tokens would be all there is to see.
// NaN has none.
std::vector<float> shade_strengths(std::span<const double> values);

}  // namespace keyscope::session
