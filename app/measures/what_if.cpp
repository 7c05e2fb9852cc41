#include "app/measures/what_if.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "analysis/policies/registry.hpp"
#include "app/measures/head_data.hpp"
#include "app/measures/head_measures.hpp"
#include "base/errors.hpp"
#include "capture/model/policy_file.hpp"
#include "capture/model/recorded_attention.hpp"
#include "capture/replay/head_replay.hpp"

namespace keyscope::measures {

namespace {

using recording::HeadTrace;
using recording::RecordingInfo;
using recording::RunInfo;

RunInfo replayed_run(const RecordingInfo& info, int full, const analysis::PolicySpec& spec, double share) {
  const auto seed = static_cast<std::uint64_t>(info.provenance.seed);
  const analysis::PolicyNeeds needs = analysis::make_policy(spec, seed)->needs();
  auto parameters = analysis::with_defaults(spec, seed).options;
  RunInfo run = info.runs[full];
  run.plan.name = kWhatIfName;
  run.plan.policy = spec.name;
  const std::string statistic = replay::oracle_statistic(needs);
  run.plan.oracle = !statistic.empty();
  if (run.plan.oracle) parameters["oracle"] = statistic;
  run.plan.parameters = recording::parameters_json(parameters);
  run.plan.budget = analysis::Budget::of_share(share).rows_for(info.n_prompt());
  run.plan.replayed = true;
  run.plan.max_generated = 0;
  // Of the prompt alone.
  run.blocks_done = std::min(run.blocks_done, run.plan.n_prompt_blocks);
  run.block_start.resize(run.blocks_done);
  run.block_ms.assign(run.blocks_done, std::numeric_limits<float>::quiet_NaN());
  run.n_tokens = info.n_prompt();
  run.generated = {};
  run.top_logits.clear();
  run.top_ids.clear();
  run.n_scored = 0;
  return run;
}

}  // namespace

std::string what_if_refusal(const RecordingInfo& info, const std::string& policy) {
  if (full_cache_run(info) < 0) return "there is no finished run that kept everything";
  if (!info.keys) return "keys were not recorded";
  try {
    const auto made = capture::policy_for(analysis::parse_policy(policy),
                                          static_cast<std::uint64_t>(info.provenance.seed), info);
    if (!replay::cuts_heads_alone(*made)) return "it looks at several heads together; replay it instead";
    const auto needs = made->needs();
    for (std::string refusal :
         {replay::query_refusal(info, needs, info.layers), replay::window_refusal(info, needs),
          replay::value_norm_refusal(info, made->slots(), info.layers)})
      if (!refusal.empty()) return refusal;
    if (needs.values && !info.values) return "it scores values, which were not recorded";
  } catch (const UsageError& error) {
    return error.what();
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

WhatIfRecording::WhatIfRecording(std::shared_ptr<const recording::Recording> base, const WhatIf& what_if)
    : base_(std::move(base)), full_(full_cache_run(*base_->info())) {
  const analysis::PolicySpec spec = analysis::parse_policy(what_if.policy);
  RecordingInfo info = *base_->info();
  policy_ = capture::policy_for(spec, static_cast<std::uint64_t>(info.provenance.seed), info);
  info.runs.push_back(replayed_run(info, full_, spec, what_if.share));
  info_ = std::make_shared<const RecordingInfo>(std::move(info));
}

RowMatrixF WhatIfRecording::keys(int run, int layer, int kv_head, std::int64_t first,
                                 std::int64_t count) const {
  return base_->keys(source_of(run), layer, kv_head, first, count);
}

RowMatrixF WhatIfRecording::queries(int run, int layer, int query_head, std::int64_t first,
                                    std::int64_t count) const {
  return base_->queries(source_of(run), layer, query_head, first, count);
}

RowMatrixF WhatIfRecording::values(int run, int layer, int kv_head, std::int64_t first,
                                   std::int64_t count) const {
  return base_->values(source_of(run), layer, kv_head, first, count);
}

recording::AttentionStatistics WhatIfRecording::statistics(int run, int layer) const {
  if (run == this->run()) return {};
  return base_->statistics(run, layer);
}

std::vector<float> WhatIfRecording::sink_logits(int run, int layer) const {
  return base_->sink_logits(source_of(run), layer);
}

recording::LayerRouting WhatIfRecording::routing(int run, int layer) const {
  if (run == this->run()) return {};
  return base_->routing(run, layer);
}

RowMatrixF WhatIfRecording::attention(int run, int layer, int query_head, std::int64_t first,
                                      std::int64_t count) const {
  if (run == this->run()) throw FileError("nothing attended in a run that was replayed");
  return base_->attention(run, layer, query_head, first, count);
}

// Nobody attended under these evictions, so that nothing was received.
HeadTrace WhatIfRecording::trace(int run, int layer, int kv_head) const {
  if (run != this->run()) return base_->trace(run, layer, kv_head);
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = traces_.find({layer, kv_head}); known != traces_.end()) return known->second;
  }
  const int scored = replay::scored_layer(*info_, layer);
  const analysis::PolicyNeeds needs = policy_->needs();
  replay::HeadSource source = replay::read_head_source(*base_, *policy_, full_, scored, kv_head);
  source.last_row_layer = replay::read_last_row_layer(*base_, needs, full_, scored);
  const recording::RunPlan& plan = info_->runs.back().plan;
  replay::HeadEvictions evictions = replay::replay_head(
      *policy_, source, kv_head,
      {scored, plan.budget, plan.block_size, capture::recorded_rules(*info_, scored).window},
      [](std::int64_t) {});
  const auto n = static_cast<std::size_t>(info_->n_prompt());
  HeadTrace trace{std::move(evictions.evicted_at), std::move(evictions.evicted_margin),
                  std::vector<double>(n, 0), std::vector<std::int32_t>(n, 0), std::vector<float>(n, 0)};
  if (info_->has_value_norms(layer)) trace.value_norms = base_->trace(full_, layer, kv_head).value_norms;
  trace.value_norms.resize(std::min(trace.value_norms.size(), n));
  const std::lock_guard lock(mutex_);
  return traces_.insert_or_assign({layer, kv_head}, std::move(trace)).first->second;
}

BudgetCurve budget_curve(const std::shared_ptr<const recording::Recording>& base, const std::string& policy,
                         int layer, int kv_head) {
  constexpr std::array kShares{0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0};
  BudgetCurve curve{policy, layer, kv_head, {}, {}};
  for (const double share : kShares) {
    const WhatIfRecording recording(base, {policy, share});
    const auto measures =
        measure_head(recording, recording.run(), layer, kv_head, {Part::kMass, Part::kVolume});
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    curve.points.push_back(
        {share, measures.attention_mass_kept.value_or(kNone), measures.log_volume_nats.value_or(kNone)});
  }
  return curve;
}

}  // namespace keyscope::measures
