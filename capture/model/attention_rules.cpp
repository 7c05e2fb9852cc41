#include "capture/model/attention_rules.hpp"

#include <cmath>

namespace keyscope::capture {

AttentionRules attention_rules(const ModelConfig& config, int layer) {
  const double usual_scale = 1 / std::sqrt(static_cast<double>(config.head_dim));
  return {.scale = config.attention_scale > 0 ? config.attention_scale : usual_scale,
          .softcap = config.attention_softcap,
          .window = config.window(layer)};
}

}  // namespace keyscope::capture
