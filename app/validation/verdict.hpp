#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "analysis/statistics.hpp"

namespace keyscope::validation {

// The rules by which claims are judged. They stand in docs/validate.md, and beside every verdict, and were
// there before any result.
enum class Verdict { kSupported, kNotSupported, kCannotTell };

// "supported", "not supported", "cannot tell".
std::string_view verdict_name(Verdict verdict);

// On which side of zero a claim says that a mean lies.
enum class Side { kAbove, kBelow };

// Below this, an interval over prompts is too narrow to be believed: the percentile bootstrap of few samples
// covers less than it says.
inline constexpr std::int64_t kLeastPrompts = 8;

// Supported where the whole interval lies on the claimed side of zero, not supported where none of it does
// (an end that is zero is not on it), else it cannot be told; nor can it from fewer than kLeastPrompts.
Verdict judge(const analysis::BootstrapMean& mean, Side side);

// An inequality that the paper proves: one violation refutes it, and without pairs there is nothing to hold.
Verdict judge_bound(std::int64_t pairs, std::int64_t violations);

// Of a claim with several parts: supported if all are, not supported if one is not, else it cannot be told.
// Nor can it without parts.
Verdict judge_all(std::span<const Verdict> parts);

// The rule of `judge` in words.
std::string rule_text(Side side);
std::string bound_rule_text();

// How strong a rank correlation is, by the bands of Schober, Boer and Schwarte (Anesthesia & Analgesia 126,
// 2018): "negligible", "weak", "moderate", "strong", "very strong"; "unknown" for NaN.
std::string_view strength_name(double correlation);

}  // namespace keyscope::validation
