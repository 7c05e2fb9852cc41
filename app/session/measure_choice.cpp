#include "app/session/measure_choice.hpp"

#include <array>

#include "app/figures/axis_ticks.hpp"

namespace keyscope::session {

using figures::ColourMap;
using measures::HeadMeasures;

std::span<const MeasureChoice> measure_choices() {
  static constexpr std::array<MeasureChoice, 8> kChoices{{
      {"spearman", "Spearman ρ", "rank correlation of −cos(key, mean key) with attention received per query",
       &HeadMeasures::spearman, ColourMap::kDiverging, 3},
      {"spearman_given_position", "ρ given position",
       "the same with each token's position held fixed, which explains part of every sum",
       &HeadMeasures::spearman_given_position, ColourMap::kDiverging, 3},
      {"mean_key_cosine", "Mean cos(key, mean key)", "how closely the keys point one way",
       &HeadMeasures::mean_key_cosine, ColourMap::kDiverging, 3},
      {"key_query_mean_cosine", "cos(mean key, mean query)", "below 0: keys and queries point apart",
       &HeadMeasures::key_query_mean_cosine, ColourMap::kDiverging, 3},
      {"top_key_query_cosine", "cos(top key, mean query)",
       "above 0: the key that KeyDiff scores highest points towards the queries",
       &HeadMeasures::top_key_query_cosine, ColourMap::kDiverging, 3},
      {"log_volume_nats", "Log volume (nats)", "diversity of the retained keys; larger is more diverse",
       &HeadMeasures::log_volume_nats, ColourMap::kViridis, 1},
      {"mean_pairwise_cosine", "Redundancy", "mean cosine between two different retained keys",
       &HeadMeasures::mean_pairwise_cosine, ColourMap::kDiverging, 3},
      {"attention_mass_kept", "Attention mass kept", "share of full-cache attention on the retained keys",
       &HeadMeasures::attention_mass_kept, ColourMap::kViridis, 3},
  }};
  return kChoices;
}

std::string format_measure(const MeasureChoice& choice, const std::optional<double>& value) {
  return value ? figures::format_signed(*value, choice.decimals) : std::string("–");
}

}  // namespace keyscope::session
