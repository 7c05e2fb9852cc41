#pragma once

#include "analysis/attention_rules.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// What attention did in a layer of the recorded model, by the config.json that the recording holds; by what
// most models do, 1/√head_dim and nothing else, where that is of no model that can be run here.
analysis::AttentionRules recorded_rules(const recording::RecordingInfo& info, int layer);

}  // namespace keyscope::measures
