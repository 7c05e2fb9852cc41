#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/figures/figure.hpp"
#include "app/figures/keyspace_look.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::session {

// A colour scale, and what its numbers mean: equal words mean that they can be read on one scale.
struct MeantScale {
  figures::ColourScale scale;
  std::string meaning;
};

// What the colours of a run's keys mean beside those of another run: scores and margins of two policies are
// numbers of two kinds; without a policy, scores are KeyDiff's.
std::string meaning_of(const recording::RunPlan& plan, figures::KeyColour colour);

// One scale for all, from the least low end to the greatest high end, so that equal colours are equal
// numbers; nullopt where they do not mean the same, or there is none.
std::optional<figures::ColourScale> shared_scale(const std::vector<MeantScale>& scales);

}  // namespace keyscope::session
