#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "analysis/policies/row_selection.hpp"
#include "analysis/policies/slots.hpp"

namespace keyscope::analysis {

// A KV head's rows as its policy ranks them.
struct RankedRows {
  std::span<const double> scores;           // (n_rows), finite
  std::span<const std::uint8_t> forced;     // (n_rows) what the policy itself forces
  std::span<const std::int32_t> positions;  // (n_rows), ascending
  // (n_rows) ‖W_O v‖₁, mean over the group, where values weigh (Slots::critical).
  std::span<const double> value_norms = {};
};

// By how much a layer is cut.
struct LayerCut {
  std::span<const std::int64_t> budgets;                             // (n_kv_heads) rows that stay
  std::int64_t nominal = 0;                                          // N, which shares are of
  std::int64_t n_prompt = std::numeric_limits<std::int64_t>::max();  // positions from here on were generated
};

// Rows that are protected, at most `most` of them, the most important first: sinks, the boundary at the
// beginning, the recent ones from the newest back, the boundary at the prompt's end.
std::vector<std::int32_t> protected_rows(const Slots::Protection& protect, const LayerCut& cut,
                                         std::span<const std::int32_t> positions, std::int64_t most);

// How many that are of a budget in a layer that holds as many rows as that.
std::int64_t protected_everywhere(const Slots::Protection& protect, std::int64_t budget);

// Marks of the rows that stay whatever they score, at most `most`: what is protected, and then what the
// policy itself forces, the newest first.
std::vector<std::uint8_t> forced_rows(const Slots& slots, std::span<const std::int32_t> positions,
                                      std::span<const std::uint8_t> by_policy, const LayerCut& cut,
                                      std::int64_t most);

// Which rows of a layer's KV heads stay. Ties go to the lower position, then to the lower head. A margin is
// what the score, that of all heads or of a page where these are one, lacked to the least that was kept for
// its score; under `adakv` to the least of the whole layer. Where values weigh, half of what is kept, rows,
// pages, or the layer's rows under `adakv`, is chosen by score, with what is forced counting in that half;
// all else is ranked, and margins are told, by the product. Of rows or pages that are one, score and norm are
// means.
//   throws InvalidInput where scores are not finite, norms are missing, or heads that are to be one hold
//   different rows
std::vector<Selection> select_layer(const Slots& slots, std::span<const RankedRows> heads,
                                    const LayerCut& cut);

// The same of all layers at once, where they have one set: [n_layers][n_kv_heads].
//   budgets of the cut: of any one head
std::vector<std::vector<Selection>> select_model(const Slots& slots,
                                                 std::span<const std::vector<RankedRows>> layers,
                                                 const LayerCut& cut);

}  // namespace keyscope::analysis
