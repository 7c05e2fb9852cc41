#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/figures/figure.hpp"
#include "app/figures/keyspace_data.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

// A colour scale, and what its numbers mean: equal words mean that they can be read on one scale.
struct MeantScale {
  ColourScale scale;
  std::string meaning;
};

// What the colours of a run's keys mean beside those of another run: scores and margins of two policies are
// numbers of two kinds; without a policy, scores are KeyDiff's.
std::string meaning_of(const recording::RunPlan& plan, KeyColour colour);

// One scale for all, from the least low end to the greatest high end, so that equal colours are equal
// numbers; nullopt where they do not mean the same, or there is none.
std::optional<ColourScale> shared_scale(const std::vector<MeantScale>& scales);

// Figures of the same kind, of several runs, in one: whose each panel is, and what differs between their
// titles, stands above it.
//   names: of the runs
Figure side_by_side(std::vector<Figure> figures, const std::vector<std::string>& names);

}  // namespace keyscope::figures
