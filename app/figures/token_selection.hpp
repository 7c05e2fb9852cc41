#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/figures/figure.hpp"

namespace keyscope::figures {

// Token positions, ascending, each once.
using TokenSet = std::vector<std::int32_t>;

bool contains(const TokenSet& tokens, std::int64_t position);

// Whether the panel has points that stand for tokens.
bool has_tokens(const Panel& panel);

struct OutlinePoint {
  double x = 0, y = 0;
};

// The tokens whose keys lie inside an outline that closes by itself; where it crosses itself, what it winds
// around an odd number of times. Queries, and series that are hidden, are not looked at.
//   outline: in the panel's plane; fewer than three points hold nothing
//   hidden: ids of series
TokenSet tokens_inside(const Panel& panel, const std::vector<std::string>& hidden,
                       const std::vector<OutlinePoint>& outline);

// The panel with its token points split in two: first those of tokens that are not selected, faded, then
// those that are, so that these lie on top. Ids stay, other series as well.
Panel fade_unselected(const Panel& panel, const TokenSet& tokens);

}  // namespace keyscope::figures
