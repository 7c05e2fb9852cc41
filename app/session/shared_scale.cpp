#include "app/session/shared_scale.hpp"

#include <algorithm>

namespace keyscope::session {
namespace {

bool can_be_one(const MeantScale& a, const MeantScale& b) {
  return a.meaning == b.meaning && a.scale.id == b.scale.id && a.scale.units == b.scale.units &&
         a.scale.colour_map == b.scale.colour_map && a.scale.logarithmic == b.scale.logarithmic &&
         a.scale.categories == b.scale.categories;
}

}  // namespace

std::string meaning_of(const recording::RunPlan& plan, figures::KeyColour colour) {
  std::string meaning(figures::id_of(colour));
  if (colour != figures::KeyColour::kScore && colour != figures::KeyColour::kMargin) return meaning;
  return meaning + " by " + (plan.policy == "none" ? "keydiff" : plan.policy);
}

std::optional<figures::ColourScale> shared_scale(const std::vector<MeantScale>& scales) {
  if (scales.empty()) return std::nullopt;
  figures::ColourScale shared = scales.front().scale;
  for (const MeantScale& each : scales) {
    if (!can_be_one(scales.front(), each)) return std::nullopt;
    // Of the names, the shortest: what one run adds in brackets holds for it alone.
    if (each.scale.long_name.size() < shared.long_name.size()) shared.long_name = each.scale.long_name;
    shared.low = std::min(shared.low, each.scale.low);
    shared.high = std::max(shared.high, each.scale.high);
  }
  return shared;
}

}  // namespace keyscope::session
