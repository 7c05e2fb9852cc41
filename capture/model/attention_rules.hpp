#pragma once

#include "analysis/attention_rules.hpp"
#include "capture/model/config.hpp"

namespace keyscope::capture {

using analysis::AttentionRules;

// What a layer's attention does: for the engine, and for whoever recomputes its weights from a recording.
//   layer: in [0, n_layers)
AttentionRules attention_rules(const ModelConfig& config, int layer);

}  // namespace keyscope::capture
