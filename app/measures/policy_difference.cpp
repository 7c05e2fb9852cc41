#include "app/measures/policy_difference.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include "app/measures/attention_weights.hpp"
#include "app/measures/token_story.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::measures {

namespace {

using recording::HeadTrace;
using recording::Recording;
using recording::RecordingInfo;
using recording::RunInfo;

constexpr std::int64_t kBandQueries = 128;

struct Received {
  std::vector<double> before, after;  // (n_tokens)
};

// What the full cache's prompt queries gave each token before query `until` of it, and from there on: every
// query is looked at once, for all tokens together.
//   until: (n_tokens); rows of `none` are as many
Received received_around(const Recording& recording, const HeadSelection& full, int group,
                         const std::vector<std::int64_t>& until, std::int64_t n_queries,
                         const std::atomic<bool>& cancelled) {
  const std::int64_t n_tokens = std::ssize(until), n_bands = (n_queries + kBandQueries - 1) / kBandQueries;
  std::vector<Received> parts(
      static_cast<std::size_t>(n_bands));  // added up in order: the same to the last bit
  oneapi::tbb::parallel_for(std::size_t{0}, parts.size(), [&](std::size_t band) {
    if (cancelled) throw Cancelled("interrupted; nothing was written");
    Received& part = parts[band];
    part.before.assign(n_tokens, 0);
    part.after.assign(n_tokens, 0);
    const std::int64_t first = static_cast<std::int64_t>(band) * kBandQueries;
    const std::int64_t count = std::min(kBandQueries, n_queries - first);
    for (int g = 0; g < group; ++g) {
      const RowMatrixF weights =
          visible_attention(recording, full.run, full.layer, full.kv_head * group + g, first, count);
      const std::int64_t n_keys = std::min<std::int64_t>(n_tokens, weights.cols());
      for (std::int64_t row = 0; row < count; ++row)
        for (std::int64_t key = 0; key < n_keys; ++key) {
          const float weight = weights(row, key);
          if (!std::isnan(weight)) (first + row < until[key] ? part.before : part.after)[key] += weight;
        }
    }
  });
  Received sum{std::vector<double>(n_tokens, 0), std::vector<double>(n_tokens, 0)};
  for (const Received& part : parts)
    for (std::int64_t token = 0; token < n_tokens; ++token) {
      sum.before[token] += part.before[token] / group;
      sum.after[token] += part.after[token] / group;
    }
  return sum;
}

std::string why_no_attention(const RecordingInfo& info) {
  if (full_cache_run(info) < 0) return "there is no finished run `none`, which would say what was lost";
  if (!has_recorded_attention(info, full_cache_run(info)) && !(info.keys && info.queries))
    return "neither attention nor keys and queries were recorded";
  return "";
}

KeptBy kept_by(bool a, bool b) {
  return a ? (b ? KeptBy::kBoth : KeptBy::kOnlyA) : b ? KeptBy::kOnlyB : KeptBy::kNeither;
}

// Both runs of one head.
class TwoRuns {
 public:
  TwoRuns(const Recording& recording, const RecordingInfo& info, int a, int b, const HeadSelection& head)
      : run_a_(run_of(info, a)),
        run_b_(run_of(info, b)),
        a_(recording.trace(a, head.layer, head.kv_head)),
        b_(recording.trace(b, head.layer, head.kv_head)) {}

  std::vector<KeptBy> kept(std::int64_t block, std::int64_t n_seen) const {
    const std::int64_t block_b = block_having_seen(run_b_, n_seen);
    std::vector<KeptBy> kept;
    for (std::int64_t token = 0; token < n_seen; ++token)
      kept.push_back(kept_by(is_kept(a_, token, block), is_kept(b_, token, block_b)));
    return kept;
  }

  // Of a token that only one of them kept: the other's trace and run.
  const HeadTrace& loser(KeptBy by) const { return by == KeptBy::kOnlyA ? b_ : a_; }
  const RunInfo& losing_run(KeptBy by) const { return by == KeptBy::kOnlyA ? run_b_ : run_a_; }

  // The first query that the losing run's cache did not show the token.
  std::int64_t end_of_sight(KeptBy by, std::int64_t token) const {
    return recording::tokens_seen(losing_run(by), loser(by).evicted_at[token]);
  }

 private:
  const RunInfo &run_a_, &run_b_;
  HeadTrace a_, b_;
};

void add_head(const Recording& recording, const RecordingInfo& info, const TwoRuns& pair,
              const HeadSelection& head, const std::vector<KeptBy>& kept, PolicyDifference& difference,
              std::map<std::pair<std::int32_t, KeptBy>, DifferingToken>& tokens,
              const std::atomic<bool>& cancelled) {
  const auto differs = [](KeptBy by) { return by == KeptBy::kOnlyA || by == KeptBy::kOnlyB; };
  std::vector<std::int64_t> until(kept.size(), 0);
  for (std::size_t token = 0; token < kept.size(); ++token)
    if (differs(kept[token])) until[token] = pair.end_of_sight(kept[token], static_cast<std::int64_t>(token));
  std::optional<Received> received;
  if (difference.missing.empty() && std::ranges::any_of(kept, differs))
    received = received_around(recording, {full_cache_run(info), head.layer, head.kv_head},
                               info.model.group_size(head.layer), until, info.n_prompt(), cancelled);
  for (std::size_t at = 0; at < kept.size(); ++at) {
    const KeptBy by = kept[at];
    if (by == KeptBy::kBoth) ++difference.n_both;
    if (by == KeptBy::kNeither) ++difference.n_neither;
    if (!differs(by)) continue;
    const auto position = static_cast<std::int32_t>(at);
    DifferingToken& token = tokens[{position, by}];
    token.position = position;
    token.kept_by = by;
    ++token.n_heads;
    (by == KeptBy::kOnlyA ? difference.n_only_a : difference.n_only_b) += 1;
    const HeadTrace& loser = pair.loser(by);
    token.evicted_at = loser.evicted_at[at];
    token.margin.reset();
    if (at < loser.evicted_margin.size() && !std::isnan(loser.evicted_margin[at]))
      token.margin = loser.evicted_margin[at];
    DifferingRow row{head.layer, head.kv_head, position, by, loser.evicted_at[at], token.margin, {}, {}};
    if (received) {
      row.attention_before = received->before[at];
      row.attention_after = received->after[at];
      token.received = token.received.value_or(0) + received->before[at];
      token.afterwards = token.afterwards.value_or(0) + received->after[at];
    }
    difference.rows.push_back(row);
  }
}

}  // namespace

bool is_kept(const HeadTrace& trace, std::int64_t token, std::int64_t block) {
  const std::int32_t gone = trace.evicted_at[token];
  return gone < 0 || gone > block;
}

std::int64_t block_having_seen(const RunInfo& run, std::int64_t n_tokens) {
  for (std::int64_t block = 0; block < run.blocks_done; ++block)
    if (recording::tokens_seen(run, block) >= n_tokens) return block;
  return run.blocks_done - 1;
}

PolicyDifference policy_difference(const Recording& recording, int a, int b,
                                   const std::vector<HeadSelection>& heads, std::int64_t block,
                                   bool attention,
                                   const std::function<void(std::int64_t, std::int64_t)>& progress,
                                   const std::atomic<bool>& cancelled) {
  const auto info = recording.info();
  const BlockEnd end = find_block_end(*info, a, block);
  PolicyDifference difference;
  difference.block = end.block;
  difference.n_seen = std::min(end.n_seen, run_of(*info, b).n_tokens);
  difference.missing = attention ? why_no_attention(*info) : "not looked for";
  std::map<std::pair<std::int32_t, KeptBy>, DifferingToken> tokens;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    if (cancelled) throw Cancelled("interrupted; nothing was written");
    const TwoRuns pair(recording, *info, a, b, heads[i]);
    const std::vector<KeptBy> kept = pair.kept(end.block, difference.n_seen);
    add_head(recording, *info, pair, heads[i], kept, difference, tokens, cancelled);
    if (heads.size() == 1) difference.kept = kept;
    if (progress) progress(static_cast<std::int64_t>(i) + 1, std::ssize(heads));
  }
  for (auto& [key, token] : tokens) {
    if (heads.size() > 1) token.evicted_at.reset(), token.margin.reset();
    difference.tokens.push_back(token);
  }
  std::ranges::stable_sort(difference.tokens, std::ranges::greater(),
                           [](const DifferingToken& token) { return token.afterwards.value_or(0); });
  std::ranges::sort(difference.rows, {}, [](const DifferingRow& row) {
    return std::tuple(-row.attention_after.value_or(0), row.layer, row.kv_head, row.position);
  });
  return difference;
}

std::string difference_csv(const RecordingInfo& info, const PolicyDifference& difference, int a, int b) {
  const std::string name_a = info.runs[a].plan.name, name_b = info.runs[b].plan.name;
  std::string text =
      "layer,kv_head,position,token,kept_by,evicted_at,margin,attention_before,attention_after\n";
  const auto number = [](const auto& value) { return value ? fmt::format("{}", *value) : std::string(); };
  for (const DifferingRow& row : difference.rows)
    text += fmt::format("{},{},{},{},{},{},{},{},{}\n", row.layer, row.kv_head, row.position,
                        csv_field(token_bytes(info, a, row.position), true),
                        csv_field(row.kept_by == KeptBy::kOnlyA ? name_a : name_b), row.evicted_at,
                        number(row.margin), number(row.attention_before), number(row.attention_after));
  return text;
}

}  // namespace keyscope::measures
