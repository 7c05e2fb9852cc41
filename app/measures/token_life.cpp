#include "app/measures/token_life.hpp"

#include <algorithm>
#include <memory>

#include "analysis/policies/policy.hpp"
#include "analysis/policies/slot_selection.hpp"
#include "app/measures/token_story.hpp"
#include "base/errors.hpp"
#include "capture/model/recorded_attention.hpp"

namespace keyscope::measures {

namespace {

// Notes that a token was forced at the end of a block; blocks come in order.
void note_forced(TokenLife& life, std::int64_t block) {
  if (!life.forced.empty() && life.forced.back().second == block - 1)
    life.forced.back().second = block;
  else
    life.forced.emplace_back(block, block);
}

// Of the rows that a block's choice was between, those that stayed by force.
//   rows: positions, ascending; evicted_at: (n_tokens)
void note_forced_rows(const analysis::Policy& policy, const HeadSelection& selection,
                      const analysis::LayerCut& cut, std::int64_t block, std::int64_t n_new,
                      const std::vector<std::int32_t>& rows, std::vector<TokenLife>& lives) {
  const RowMatrixF no_rows;  // a rule goes by positions and by how many are new
  const analysis::PolicyInput input{.keys = no_rows,
                                    .values = no_rows,
                                    .positions = rows,
                                    .n_new_rows = std::min(n_new, std::ssize(rows)),
                                    .layer = selection.layer,
                                    .kv_head = selection.kv_head};
  std::vector<std::uint8_t> by_policy(rows.size());
  const std::int64_t most = std::min(cut.budgets.front(), std::ssize(rows));
  policy.force(input, most, by_policy);
  const auto forced = analysis::forced_rows(policy.slots(), rows, by_policy, cut, most);
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (forced[i] != 0) note_forced(lives[rows[i]], block);
}

}  // namespace

std::optional<LifeState> TokenLife::at(std::int64_t block) const {
  if (block < arrived) return std::nullopt;
  if (gone && block >= *gone) return passed ? LifeState::kPassed : LifeState::kEvicted;
  const bool is_forced = std::ranges::any_of(
      forced, [&](const auto& span) { return span.first <= block && block <= span.second; });
  return is_forced ? LifeState::kForced : LifeState::kInCache;
}

std::vector<TokenLife> token_lives(const recording::Recording& recording, const HeadSelection& selection,
                                   const std::atomic<bool>& cancelled) {
  const auto info = recording.info();
  const recording::RunInfo& run = run_of(*info, selection.run);
  const auto evicted_at = recording.trace(selection.run, selection.layer, selection.kv_head).evicted_at;
  const std::int64_t window = capture::recorded_rules(*info, selection.layer).window;
  const auto policy = recorded_policy(*info, run);
  // Of those that are dealt anew after every block, what stayed then.
  std::int64_t budget = run.plan.layer_budgets(selection.layer, info->model)[selection.kv_head];
  const analysis::LayerCut cut{{&budget, 1}, run.plan.budget, info->n_prompt()};
  std::vector<TokenLife> lives(run.n_tokens);
  std::vector<std::int32_t> rows;  // in the cache, ascending
  for (std::int64_t block = 0, token = 0; block < run.blocks_done; ++block) {
    if (cancelled) throw Cancelled("the lives are no longer wanted");
    const std::int64_t n_seen = recording::tokens_seen(run, block);
    const std::int64_t n_new = n_seen - token;
    for (; token < n_seen; ++token) {
      lives[token].arrived = block;
      rows.push_back(static_cast<std::int32_t>(token));
    }
    const auto goes = [&](std::int32_t row) { return evicted_at[row] == block; };
    // What a window has passed goes first, and for good; the policy chooses among the others.
    const auto passed = [&](std::int32_t row) { return goes(row) && window > 0 && n_seen - row >= window; };
    for (const std::int32_t row : rows)
      if (goes(row)) {
        lives[row].gone = block;
        lives[row].passed = passed(row);
      }
    std::erase_if(rows, passed);
    if (const auto n_going = std::ranges::count_if(rows, goes); policy && n_going > 0) {
      if (policy->slots().deals_by_block()) budget = std::ssize(rows) - n_going;
      note_forced_rows(*policy, selection, cut, block, n_new, rows, lives);
    }
    std::erase_if(rows, goes);
  }
  return lives;
}

}  // namespace keyscope::measures
