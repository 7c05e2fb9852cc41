#include "app/validation/verdict.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace keyscope::validation {

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSupported:
      return "supported";
    case Verdict::kNotSupported:
      return "not supported";
    case Verdict::kCannotTell:
      break;
  }
  return "cannot tell";
}

Verdict judge(const analysis::BootstrapMean& mean, Side side) {
  if (mean.n_samples < kLeastPrompts) return Verdict::kCannotTell;
  // Of the interval, the end nearest to zero where the claim holds, and the farthest.
  const double nearest = side == Side::kAbove ? mean.low : -mean.high;
  const double farthest = side == Side::kAbove ? mean.high : -mean.low;
  if (nearest > 0) return Verdict::kSupported;
  return farthest <= 0 ? Verdict::kNotSupported : Verdict::kCannotTell;
}

Verdict judge_bound(std::int64_t pairs, std::int64_t violations) {
  if (violations > 0) return Verdict::kNotSupported;
  return pairs > 0 ? Verdict::kSupported : Verdict::kCannotTell;
}

Verdict judge_all(std::span<const Verdict> parts) {
  if (std::ranges::find(parts, Verdict::kNotSupported) != parts.end()) return Verdict::kNotSupported;
  const bool all = std::ranges::all_of(parts, [](Verdict part) { return part == Verdict::kSupported; });
  return all && !parts.empty() ? Verdict::kSupported : Verdict::kCannotTell;
}

std::string rule_text(Side side) {
  const bool above = side == Side::kAbove;
  return fmt::format(
      "supported if the interval's {} end is {} 0; not supported if its {} end is at or {} 0; else, or with "
      "fewer than {} prompts, cannot tell",
      above ? "low" : "high", above ? "above" : "below", above ? "high" : "low", above ? "below" : "above",
      kLeastPrompts);
}

std::string bound_rule_text() {
  return "supported if no pair violates it; not supported if one does beyond rounding; cannot tell if no "
         "pair "
         "meets its hypotheses";
}

std::string_view strength_name(double correlation) {
  const double size = std::abs(correlation);
  if (std::isnan(size)) return "unknown";
  if (size < 0.1) return "negligible";
  if (size < 0.4) return "weak";
  if (size < 0.7) return "moderate";
  return size < 0.9 ? "strong" : "very strong";
}

}  // namespace keyscope::validation
