#include "app/measures/score_history.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "analysis/policies/registry.hpp"
#include "app/measures/placed_keys.hpp"
#include "app/measures/recorded_rules.hpp"

namespace keyscope::measures {
namespace {

using recording::Recording;
using recording::RecordingInfo;
using recording::RunInfo;

// The policy with the options that the run records; null for `none`.
std::unique_ptr<analysis::Policy> recorded_policy(const RecordingInfo& info, const RunInfo& run) {
  analysis::PolicySpec spec{run.plan.policy, {}};
  const auto parameters = nlohmann::json::parse(run.plan.parameters, nullptr, false);
  if (parameters.is_object())
    for (const auto& [key, value] : parameters.items())
      if (key != "oracle") spec.options[key] = value.is_string() ? value.get<std::string>() : value.dump();
  return analysis::make_policy(spec, static_cast<std::uint64_t>(info.provenance.seed));
}

std::string why_not(const RecordingInfo& info, const RunInfo& run, const analysis::Policy* policy,
                    const HeadSelection& head) {
  if (policy == nullptr) return "the run none evicts nothing and scores nothing";
  if (!info.keys || !info.heads.has(head.kv_head)) return "the head's keys were not recorded";
  if (policy->needs().attention())
    return fmt::format("{} scores by attention as it was at each block, which is not recorded",
                       run.plan.policy);
  if (policy->needs().values && !info.values)
    return fmt::format("{} scores by values as well, which were not recorded", run.plan.policy);
  if (!policy->evicts(head.layer)) return fmt::format("{} leaves this layer alone", run.plan.policy);
  return "";
}

// One head's rows, and which of them stand before the policy at a block.
class HeadRows {
 public:
  HeadRows(const Recording& recording, const RecordingInfo& info, const HeadSelection& selection, bool values)
      : run_(run_of(info, selection.run)),
        window_(recorded_rules(info, selection.layer).window),
        keys_(recording.keys(selection.run, selection.layer, selection.kv_head, 0, run_.n_tokens)),
        evicted_at_(recording.trace(selection.run, selection.layer, selection.kv_head).evicted_at) {
    if (values)
      values_ = recording.values(selection.run, selection.layer, selection.kv_head, 0, run_.n_tokens);
    evicted_at_.resize(static_cast<std::size_t>(run_.n_tokens), -1);
    if (run_.plan.cache_positions)
      placed_ =
          std::make_unique<PlacedKeys>(recording, selection.run, selection.layer, selection.kv_head, keys_);
  }

  // Ascending positions of the rows that are scored at the end of a block: seen, not gone before, not past
  // the layer's window.
  std::vector<std::int32_t> present(std::int64_t block) const {
    const std::int64_t n_seen = recording::tokens_seen(run_, block);
    const std::int64_t oldest = window_ > 0 ? std::max<std::int64_t>(0, n_seen - window_ + 1) : 0;
    std::vector<std::int32_t> rows;
    for (std::int64_t at = oldest; at < n_seen; ++at)
      if (evicted_at_[static_cast<std::size_t>(at)] < 0 || evicted_at_[static_cast<std::size_t>(at)] >= block)
        rows.push_back(static_cast<std::int32_t>(at));
    return rows;
  }

  RowMatrixF keys(const std::vector<std::int32_t>& rows, std::int64_t block) const {
    return placed_ ? gather(placed_->met_by(block), rows) : gather(keys_, rows);
  }
  RowMatrixF values(const std::vector<std::int32_t>& rows) const { return gather(values_, rows); }
  bool goes(std::int32_t position, std::int64_t block) const {
    return evicted_at_[static_cast<std::size_t>(position)] == block;
  }
  std::int64_t n_new(std::int64_t block) const {
    return recording::tokens_seen(run_, block) - (block > 0 ? recording::tokens_seen(run_, block - 1) : 0);
  }

 private:
  static RowMatrixF gather(const RowMatrixF& all, const std::vector<std::int32_t>& rows) {
    if (all.rows() == 0) return {};
    RowMatrixF some(static_cast<Eigen::Index>(rows.size()), all.cols());
    for (std::size_t i = 0; i < rows.size(); ++i) some.row(static_cast<Eigen::Index>(i)) = all.row(rows[i]);
    return some;
  }

  const RunInfo& run_;
  std::int64_t window_;
  RowMatrixF keys_, values_;
  std::vector<std::int32_t> evicted_at_;
  std::unique_ptr<PlacedKeys> placed_;
};

std::optional<double> cut_of(const HeadRows& head, const std::vector<std::int32_t>& rows,
                             const std::vector<double>& scores, const std::vector<std::uint8_t>& forced,
                             std::int64_t block) {
  double lowest = std::numeric_limits<double>::infinity();
  bool some_went = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool gone = head.goes(rows[i], block);
    some_went = some_went || gone;
    if (!gone && forced[i] == 0) lowest = std::min(lowest, scores[i]);
  }
  return some_went && lowest < std::numeric_limits<double>::infinity() ? std::optional(lowest) : std::nullopt;
}

// Empty where a window has passed the token by then.
std::optional<ScoreMoment> moment_of(const HeadRows& head, const analysis::Policy& policy,
                                     const HeadSelection& selection, std::int64_t budget, std::int64_t block,
                                     std::int64_t position) {
  const std::vector<std::int32_t> rows = head.present(block);
  const auto found = std::ranges::lower_bound(rows, position);
  if (found == rows.end() || *found != position) return std::nullopt;
  const auto at = static_cast<std::size_t>(found - rows.begin());
  const RowMatrixF keys = head.keys(rows, block), values = head.values(rows);
  const auto n_rows = static_cast<std::int64_t>(rows.size());
  const analysis::PolicyInput input{.keys = keys,
                                    .values = values,
                                    .positions = rows,
                                    .n_new_rows = std::min(head.n_new(block), n_rows),
                                    .layer = selection.layer,
                                    .kv_head = selection.kv_head};
  std::vector<double> scores(rows.size());
  std::vector<std::uint8_t> forced(rows.size());
  policy.score(input, scores);
  policy.force(input, std::min(budget, n_rows), forced);
  const double score = scores[at];
  // Ties go to the lower position.
  std::int64_t rank = 1;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (scores[i] > score || (scores[i] == score && i < at)) ++rank;
  return ScoreMoment{block, score, rank, n_rows, forced[at] != 0, cut_of(head, rows, scores, forced, block)};
}

}  // namespace

ScoreHistory score_history(const Recording& recording, const HeadSelection& selection, std::int64_t position,
                           const std::atomic<bool>& cancelled) {
  const auto info = recording.info();
  const RunInfo& run = run_of(*info, selection.run);
  if (position < 0 || position >= run.n_tokens)
    throw InvalidInput(fmt::format("token {}: run {} has {} tokens", position, run.plan.name, run.n_tokens));
  const auto policy = recorded_policy(*info, run);
  ScoreHistory history;
  history.missing = why_not(*info, run, policy.get(), selection);
  if (!history.missing.empty()) return history;
  const std::int64_t budget = run.plan.layer_budgets(selection.layer, info->model.n_kv_heads)
                                  .at(static_cast<std::size_t>(selection.kv_head));
  const HeadRows head(recording, *info, selection, policy->needs().values);
  for (std::int64_t block = 0; block < run.blocks_done; ++block) {
    if (recording::tokens_seen(run, block) <= position) continue;
    if (cancelled) throw Cancelled("the token's story was left off");
    const auto moment = moment_of(head, *policy, selection, budget, block, position);
    if (moment) history.moments.push_back(*moment);
    if (head.goes(static_cast<std::int32_t>(position), block)) break;
  }
  return history;
}

}  // namespace keyscope::measures
