#include "app/measures/recorded_rules.hpp"

#include <cmath>

#include "base/errors.hpp"
#include "capture/model/attention_rules.hpp"
#include "capture/model/config.hpp"

namespace keyscope::measures {

analysis::AttentionRules recorded_rules(const recording::RecordingInfo& info, int layer) {
  try {
    const capture::ModelConfig config = capture::parse_config(info.model.config, info.source);
    if (layer < config.n_layers) return capture::attention_rules(config, layer);
  } catch (const FileError&) {
    // Recordings may come from elsewhere, and hold no configuration or one of a family that is not known.
  }
  return {.scale = 1 / std::sqrt(static_cast<double>(info.model.head_dim))};
}

}  // namespace keyscope::measures
