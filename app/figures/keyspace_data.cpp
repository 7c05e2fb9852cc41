#include "app/figures/key_values.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "analysis/policies/registry.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/token_class.hpp"

namespace keyscope::figures {
namespace {

using recording::HeadTrace;
using recording::Recording;
using recording::RecordingInfo;
using recording::RunInfo;

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
constexpr float kDecades = 1e-4F;  // of the largest attention: what a logarithmic scale goes down to

const RunInfo& run_of(const RecordingInfo& info, int run) {
  return info.runs.at(static_cast<std::size_t>(run));
}

// The policy as it ran, by the options that the recording keeps.
std::unique_ptr<analysis::Policy> policy_of(const RecordingInfo& info, int run) {
  const recording::RunPlan& plan = run_of(info, run).plan;
  analysis::PolicySpec spec{plan.policy == "none" ? "keydiff" : plan.policy, {}};
  const auto options = nlohmann::json::parse(plan.parameters, nullptr, false);
  if (options.is_object() && plan.policy != "none")
    for (const auto& [key, value] : options.items())
      spec.options[key] = value.is_string() ? value.get<std::string>() : value.dump();
  return analysis::make_policy(spec, static_cast<std::uint64_t>(info.provenance.seed));
}

std::string score_refusal(const RecordingInfo& info, int run) {
  const recording::RunPlan& plan = run_of(info, run).plan;
  if (plan.cache_positions)
    return fmt::format(
        "{} rotated its rows by their place in the cache, so its scores are not those of keys "
        "as recorded",
        plan.name);
  try {
    const analysis::PolicyNeeds needs = policy_of(info, run)->needs();
    if (needs.attention())
      return fmt::format("{} scores by attention weights, of which a recording holds only sums", plan.name);
    if (needs.values && !info.values)
      return fmt::format("{} scores by values, and these were not recorded", plan.name);
  } catch (const UsageError& error) {
    return fmt::format("the policy of {} is not known here: {}", plan.name, error.what());
  }
  return {};
}

// Rows that were there when the block had come, before its eviction.
std::vector<std::int32_t> rows_before_eviction(const HeadTrace& trace, const KeyMoment& moment) {
  return recording::retained_positions(trace.evicted_at, moment.n_seen, moment.block - 1);
}

RowMatrixF rows_at(const MatrixView& all, const std::vector<std::int32_t>& positions) {
  RowMatrixF rows(static_cast<Eigen::Index>(positions.size()), all.cols());
  for (std::size_t i = 0; i < positions.size(); ++i)
    rows.row(static_cast<Eigen::Index>(i)) = all.row(positions[i]);
  return rows;
}

std::vector<float> scores(const Recording& recording, const RecordingInfo& info, const KeyMoment& moment,
                          const MatrixView& keys, const HeadTrace& trace) {
  std::vector<float> values(static_cast<std::size_t>(moment.n_seen), kNone);
  const auto policy = policy_of(info, moment.run);
  const std::vector<std::int32_t> positions = rows_before_eviction(trace, moment);
  if (positions.empty()) return values;
  const RowMatrixF rows = rows_at(keys, positions);
  RowMatrixF value_rows(0, keys.cols());
  if (policy->needs().values)
    value_rows =
        rows_at(recording.values(moment.run, moment.layer, moment.kv_head, 0, moment.n_seen), positions);
  const std::int64_t before =
      moment.block > 0 ? recording::tokens_seen(run_of(info, moment.run), moment.block - 1) : 0;
  const analysis::PolicyInput input{.keys = rows,
                                    .values = value_rows,
                                    .positions = positions,
                                    .n_new_rows = moment.n_seen - before,
                                    .layer = moment.layer,
                                    .kv_head = moment.kv_head};
  std::vector<double> found(positions.size());
  policy->score(input, found);
  for (std::size_t i = 0; i < positions.size(); ++i)
    values[static_cast<std::size_t>(positions[i])] = static_cast<float>(found[i]);
  return values;
}

std::vector<float> attention(const RecordingInfo& info, const KeyMoment& moment, const HeadTrace& trace) {
  std::vector<float> values(static_cast<std::size_t>(moment.n_seen), kNone);
  const auto n =
      std::min({values.size(), static_cast<std::size_t>(info.n_prompt()), trace.attention_received.size()});
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(trace.attention_received[i]);
  return values;
}

std::vector<float> margins(const KeyMoment& moment, const HeadTrace& trace) {
  std::vector<float> values(static_cast<std::size_t>(moment.n_seen), kNone);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int32_t gone = trace.evicted_at[i];
    if (gone >= 0 && gone <= moment.block && i < trace.evicted_margin.size())
      values[i] = trace.evicted_margin[i];
  }
  return values;
}

std::vector<float> classes(const RecordingInfo& info, const KeyMoment& moment) {
  std::vector<float> values;
  const recording::TokenText& generated = run_of(info, moment.run).generated;
  for (std::int64_t i = 0; i < moment.n_seen; ++i) {
    const std::int64_t after = i - info.n_prompt();
    const bool known = after < generated.size();
    const std::string bytes = after < 0 ? info.prompt.token(i)
                              : known   ? generated.token(after)
                                        : std::string();
    values.push_back(known ? static_cast<float>(token_class(bytes)) : kNone);
  }
  return values;
}

// From the least value to the greatest; attention, so unequal, over decades.
void fit_scale(ColourScale& scale, const std::vector<float>& values) {
  float low = std::numeric_limits<float>::infinity(), high = -low;
  for (const float value : values) {
    if (!std::isfinite(value) || (scale.logarithmic && value <= 0)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (low > high) low = scale.logarithmic ? kDecades : 0, high = 1;
  if (scale.logarithmic) low = std::max(low, high * kDecades);
  scale.low = low;
  scale.high = high;
}

ColourScale scale_of(const RecordingInfo& info, int run, KeyColour colour) {
  ColourScale scale;
  scale.id = std::string(id_of(colour));
  const std::string policy = run_of(info, run).plan.policy;
  switch (colour) {
    case KeyColour::kDecision:
      break;
    case KeyColour::kPosition:
      scale.long_name = "token position";
      break;
    case KeyColour::kAttention:
      scale.long_name = "attention received";
      scale.logarithmic = true;
      break;
    case KeyColour::kScore:
      scale.long_name = policy == "none" ? "score by KeyDiff (nothing is evicted)" : "score by " + policy;
      break;
    case KeyColour::kMargin:
      scale.long_name = "margin at eviction by " + policy;
      break;
    case KeyColour::kTokenClass:
      scale.long_name = "token class";
      scale.categories.assign(token_class_names().begin(), token_class_names().end());
      break;
  }
  return scale;
}

}  // namespace

std::string colour_refusal(const RecordingInfo& info, int run, KeyColour colour) {
  const recording::RunPlan& plan = run_of(info, run).plan;
  if (colour == KeyColour::kAttention && plan.replayed)
    return fmt::format("{} was replayed on recorded keys: nothing attended", plan.name);
  if (colour == KeyColour::kMargin && plan.policy == "none")
    return fmt::format("{} evicts nothing, so there are no margins", plan.name);
  return colour == KeyColour::kScore ? score_refusal(info, run) : std::string();
}

KeyValues key_values(const Recording& recording, const RecordingInfo& info, const KeyMoment& moment,
                     KeyColour colour, const MatrixView& keys, const HeadTrace& trace) {
  if (const std::string why = colour_refusal(info, moment.run, colour); !why.empty())
    throw UsageError(fmt::format("no colours by {}: {}", id_of(colour), why));
  KeyValues result{{}, scale_of(info, moment.run, colour)};
  if (colour == KeyColour::kPosition)
    for (std::int64_t i = 0; i < moment.n_seen; ++i) result.values.push_back(static_cast<float>(i));
  if (colour == KeyColour::kAttention) result.values = attention(info, moment, trace);
  if (colour == KeyColour::kScore) result.values = scores(recording, info, moment, keys, trace);
  if (colour == KeyColour::kMargin) result.values = margins(moment, trace);
  if (colour == KeyColour::kTokenClass) result.values = classes(info, moment);
  if (colour != KeyColour::kTokenClass) fit_scale(result.scale, result.values);
  return result;
}

std::string values_note(const KeyValues& colours) {
  const auto n = std::ssize(colours.values);
  const auto n_without = std::ranges::count_if(colours.values, [](float value) { return std::isnan(value); });
  if (n_without == 0) return "";
  return fmt::format("{} of {} keys have a value, the others are grey", format_count(n - n_without),
                     format_count(n));
}

}  // namespace keyscope::figures
