#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace keyscope::analysis {

// How many keys a layer makes of a token, and of what size.
struct HeadShape {
  int n_kv_heads = 0;
  int head_dim = 0;

  bool operator==(const HeadShape&) const = default;
};

// What attention does besides weighing values by softmax(q·k · scale).
struct AttentionRules {
  double scale = 1;
  double softcap = 0;       // c: scores become c tanh(score / c); 0: they do not
  std::int64_t window = 0;  // rows are visible whose distance from the query is less; 0: all
  // A query head's learned sink (gpt-oss): a score that takes part in its softmax and has no row, so that the
  // weights on rows add up to less than 1. Minus infinity: none.
  double sink = -std::numeric_limits<double>::infinity();

  // What the softmax is taken of, from q·k.
  double score(double product) const {
    const double scaled = product * scale;
    return softcap > 0 ? softcap * std::tanh(scaled / softcap) : scaled;
  }

  // Position of the oldest row that a query still sees; the newest is its own.
  std::int64_t oldest_visible(std::int64_t query) const {
    return window > 0 && query >= window ? query - window + 1 : 0;
  }
};

}  // namespace keyscope::analysis
