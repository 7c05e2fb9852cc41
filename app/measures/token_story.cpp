#include "app/measures/token_story.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/slot_selection.hpp"
#include "analysis/policies/slots.hpp"
#include "app/measures/attention_weights.hpp"
#include "app/measures/head_data.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "capture/model/recorded_attention.hpp"

namespace keyscope::measures {

namespace {

using nlohmann::ordered_json;
using recording::Recording;
using recording::RecordingInfo;
using recording::RunInfo;

constexpr std::int64_t kContextTokens = 12;  // before, and after
constexpr std::size_t kMostPeers = 8;

// Where a position's token stands: the prompt's or the run's generated tokens.
struct TokenPlace {
  const recording::TokenText* tokens = nullptr;
  std::int64_t index = 0;
};

TokenPlace find_token(const RecordingInfo& info, int run, std::int64_t position) {
  const recording::TokenText& generated = info.runs.at(run).generated;
  const std::int64_t after_prompt = position - info.n_prompt();
  if (position < 0) return {};
  if (after_prompt < 0) return {&info.prompt, position};
  return after_prompt < generated.size() ? TokenPlace{&generated, after_prompt} : TokenPlace{};
}

std::string text_of(const RecordingInfo& info, int run, std::int64_t first, std::int64_t last) {
  std::string text;
  for (std::int64_t at = std::max<std::int64_t>(0, first); at < last; ++at)
    text += token_bytes(info, run, at);
  return text;
}

std::int64_t block_of(const RunInfo& run, std::int64_t position) {
  std::int64_t block = 0;
  while (recording::tokens_seen(run, block) <= position) ++block;
  return block;
}

void tell_fate(const RecordingInfo& info, const recording::HeadTrace& trace, TokenStory& story) {
  const auto at = static_cast<std::size_t>(story.position);
  if (trace.evicted_at.at(at) >= 0) story.evicted_at = trace.evicted_at[at];
  if (story.evicted_at && at < trace.evicted_margin.size() && !std::isnan(trace.evicted_margin[at]))
    story.evicted_margin = static_cast<double>(trace.evicted_margin[at]);
  const bool attended = !run_of(info, story.head.run).plan.replayed && story.position < info.n_prompt();
  if (!attended || at >= trace.attention_received.size()) return;
  story.attention_received = trace.attention_received[at];
  if (at < trace.attention_queries.size() && trace.attention_queries[at] > 0)
    story.attention_per_query = trace.attention_received[at] / trace.attention_queries[at];
}

std::string why_no_afterlife(const RecordingInfo& info, const TokenStory& story) {
  if (!story.evicted_at) return "it stayed";
  if (story.position >= info.n_prompt()) return "not known of generated tokens, which runs do not share";
  if (full_cache_run(info) < 0) return "not recorded: there is no finished run none";
  return "not recorded: the run none has neither attention nor keys and queries of this head";
}

ordered_json optional_json(const auto& value) { return value ? ordered_json(*value) : ordered_json(); }

ordered_json peers_json(const RecordingInfo& info, int run, const std::vector<AttentionPeer>& peers) {
  ordered_json list = ordered_json::array();
  for (const AttentionPeer& peer : peers)
    list.push_back({{"position", peer.position},
                    {"weight", peer.weight},
                    {"text", token_bytes(info, run, peer.position)}});
  return list;
}

ordered_json scores_json(const ScoreHistory& history) {
  ordered_json list = ordered_json::array();
  for (const ScoreAtBlock& at : history.blocks)
    list.push_back({{"block", at.block},
                    {"score", at.score},
                    {"rank", at.rank},
                    {"n_rows", at.n_rows},
                    {"forced", at.forced},
                    {"cut", optional_json(at.cut)}});
  return list;
}

}  // namespace

std::string token_bytes(const RecordingInfo& info, int run, std::int64_t position) {
  const TokenPlace place = find_token(info, run, position);
  if (!place.tokens) return "";
  // Without a tokenizer no token of the prompt has a text: then it is shown as its id.
  if (info.prompt.text.empty() && info.n_prompt() > 0)
    return fmt::format("⟨{}⟩", place.tokens->id[place.index]);
  return place.tokens->token(place.index);
}

std::int32_t token_id(const RecordingInfo& info, int run, std::int64_t position) {
  const TokenPlace place = find_token(info, run, position);
  return place.tokens ? place.tokens->id[place.index] : -1;
}

TokenStory token_story(const Recording& recording, const HeadSelection& head, std::int64_t position,
                       const std::atomic<bool>& cancelled) {
  const auto info = recording.info();
  TokenStory story;
  story.head = head;
  story.scores = score_history(recording, head, position, cancelled);
  story.position = static_cast<std::int32_t>(position);
  story.id = token_id(*info, head.run, position);
  story.text = token_bytes(*info, head.run, position);
  story.before = text_of(*info, head.run, position - kContextTokens, position);
  story.after = text_of(*info, head.run, position + 1, position + 1 + kContextTokens);
  story.arrived = block_of(run_of(*info, head.run), position);
  tell_fate(*info, recording.trace(head.run, head.layer, head.kv_head), story);
  story.attention = token_attention(recording, head, position, kMostPeers, cancelled);
  story.afterwards = attention_afterwards(recording, head, position, cancelled);
  if (!story.afterwards) story.afterwards_missing = why_no_afterlife(*info, story);
  return story;
}

ordered_json token_story_json(const RecordingInfo& info, const TokenStory& story) {
  ordered_json json;
  json["run"] = run_of(info, story.head.run).plan.name;
  json["layer"] = story.head.layer;
  json["kv_head"] = story.head.kv_head;
  json["position"] = story.position;
  json["id"] = story.id >= 0 ? ordered_json(story.id) : ordered_json();
  json["text"] = story.text;
  json["before"] = story.before;
  json["after"] = story.after;
  json["arrived"] = story.arrived;
  json["evicted_at"] = optional_json(story.evicted_at);
  json["evicted_margin"] = optional_json(story.evicted_margin);
  json["attention_received"] = optional_json(story.attention_received);
  json["attention_per_query"] = optional_json(story.attention_per_query);
  json["attention_missing"] = story.attention.missing;
  json["attended_to"] = peers_json(info, story.head.run, story.attention.attended_to);
  json["attended_by"] = peers_json(info, story.head.run, story.attention.attended_by);
  json["afterwards_missing"] = story.afterwards_missing;
  json["afterwards"] = nullptr;
  if (story.afterwards)
    json["afterwards"] = {{"n_queries", story.afterwards->n_queries},
                          {"received", story.afterwards->received},
                          {"per_query", optional_json(story.afterwards->per_query)},
                          {"received_in_all", story.afterwards->received_in_all}};
  json["scores_missing"] = story.scores.missing;
  json["scores"] = scores_json(story.scores);
  return json;
}

namespace {

bool has_attention(const RecordingInfo& info, int run, int kv_head) {
  const bool replayed = info.runs[run].plan.replayed;
  return !replayed && info.heads.has(kv_head) && (info.attention || (info.keys && info.queries));
}

std::string why_not(const RecordingInfo& info, int run, int kv_head) {
  if (has_attention(info, run, kv_head)) return "";
  if (info.runs[run].plan.replayed) return "not recorded: no query attended in a replayed run";
  if (!info.heads.has(kv_head)) return "not recorded for this head";
  return "not recorded: it takes attention, or keys and queries";
}

// Mean over the group of the weights of queries [first, first + count); NaN where a row was not visible.
RowMatrixF group_attention(const Recording& recording, const RecordingInfo& info,
                           const HeadSelection& selection, std::int64_t first, std::int64_t count) {
  const int group = info.model.group_size(selection.layer);
  RowMatrixF mean;
  for (int g = 0; g < group; ++g) {
    RowMatrixF weights = visible_attention(recording, selection.run, selection.layer,
                                           selection.kv_head * group + g, first, count);
    mean = g == 0 ? std::move(weights) : RowMatrixF(mean + weights);
  }
  return mean / static_cast<float>(group);
}

// The weights of queries [first, last) on one token.
void for_each_weight(const Recording& recording, const HeadSelection& selection, std::int64_t position,
                     std::int64_t first, std::int64_t last, const std::atomic<bool>& cancelled,
                     const std::function<void(std::int64_t query, double weight)>& take) {
  for (const double weight : attention_column(recording, selection, position, first, last, cancelled)) {
    if (!std::isnan(weight)) take(first, weight);
    ++first;
  }
}

void keep_most(std::vector<AttentionPeer>& peers, std::size_t n_most) {
  const auto end = peers.begin() + static_cast<std::ptrdiff_t>(std::min(n_most, peers.size()));
  std::partial_sort(peers.begin(), end, peers.end(), [](const AttentionPeer& a, const AttentionPeer& b) {
    return a.weight > b.weight || (a.weight == b.weight && a.position < b.position);
  });
  peers.erase(end, peers.end());
}

// Where the queries end that could see a token: at the last token of the block that evicted it.
std::int64_t end_of_sight(const recording::RunInfo& run, std::int32_t evicted_at) {
  return evicted_at < 0 ? run.n_tokens : recording::tokens_seen(run, evicted_at);
}

}  // namespace

TokenAttention token_attention(const Recording& recording, const HeadSelection& selection,
                               std::int64_t position, std::size_t n_most,
                               const std::atomic<bool>& cancelled) {
  const auto info = recording.info();
  TokenAttention attention;
  attention.missing = why_not(*info, selection.run, selection.kv_head);
  if (!attention.missing.empty()) return attention;
  const RowMatrixF own = group_attention(recording, *info, selection, position, 1);
  for (Eigen::Index row = 0; row < own.cols(); ++row)
    if (!std::isnan(own(0, row)))
      attention.attended_to.push_back({static_cast<std::int32_t>(row), static_cast<double>(own(0, row))});
  const auto evicted_at =
      recording.trace(selection.run, selection.layer, selection.kv_head).evicted_at.at(position);
  for_each_weight(recording, selection, position, position + 1,
                  end_of_sight(run_of(*info, selection.run), evicted_at), cancelled,
                  [&](std::int64_t query, double weight) {
                    attention.attended_by.push_back({static_cast<std::int32_t>(query), weight});
                  });
  keep_most(attention.attended_to, n_most);
  keep_most(attention.attended_by, n_most);
  return attention;
}

std::optional<Afterlife> attention_afterwards(const Recording& recording, const HeadSelection& selection,
                                              std::int64_t position, const std::atomic<bool>& cancelled) {
  const auto info = recording.info();
  const int full = full_cache_run(*info);
  const auto evicted_at =
      recording.trace(selection.run, selection.layer, selection.kv_head).evicted_at.at(position);
  if (full < 0 || evicted_at < 0 || position >= info->n_prompt() ||
      !has_attention(*info, full, selection.kv_head))
    return std::nullopt;
  const HeadSelection there{full, selection.layer, selection.kv_head};
  const std::int64_t first =
      std::min(info->n_prompt(), end_of_sight(run_of(*info, selection.run), evicted_at));
  Afterlife after;
  after.n_queries = info->n_prompt() - first;
  after.received_in_all =
      recording.trace(full, selection.layer, selection.kv_head).attention_received.at(position);
  for_each_weight(recording, there, position, first, info->n_prompt(), cancelled,
                  [&](std::int64_t, double weight) { after.received += weight; });
  if (after.n_queries > 0) after.per_query = after.received / static_cast<double>(after.n_queries);
  return after;
}

// Recordings may name policies that their writer alone has: in Python, of another tool.
std::unique_ptr<analysis::Policy> recorded_policy(const RecordingInfo& info, const RunInfo& run) {
  try {
    return analysis::make_policy({run.plan.policy, recording::policy_options(run.plan)},
                                 static_cast<std::uint64_t>(info.provenance.seed));
  } catch (const UsageError&) {
    return nullptr;
  }
}

namespace {

std::string why_not(const RecordingInfo& info, const RunInfo& run, const analysis::Policy* policy,
                    const HeadSelection& head) {
  if (policy == nullptr && run.plan.policy != "none")
    return fmt::format("the policy {} is not known here", run.plan.policy);
  if (policy == nullptr) return "the run none evicts nothing and scores nothing";
  if (!info.keys || !info.heads.has(head.kv_head)) return "the head's keys were not recorded";
  if (policy->head_file() == analysis::HeadFile::kVectors ||
      policy->head_file() == analysis::HeadFile::kQueryMeans)
    return fmt::format("{} scores by a file of its own, which the recording only names", run.plan.policy);
  if (policy->needs().attention())
    return fmt::format("{} scores by attention as it was at each block, which is not recorded",
                       run.plan.policy);
  if (policy->needs().values && !info.values)
    return fmt::format("{} scores by values as well, which were not recorded", run.plan.policy);
  if (policy->slots().joint() || policy->slots().split == analysis::Slots::Split::kAdaKv)
    return fmt::format("{} weighed this head's rows with those of others", run.plan.name);
  if (policy->slots().weighs_values())
    return fmt::format("{} weighed values by the model's output projection as well", run.plan.name);
  if (policy->head_file() == analysis::HeadFile::kFlags)
    return fmt::format("{} cuts the heads that a file of its own lists, which the recording only names",
                       run.plan.policy);
  if (!policy->evicts(head.layer)) return fmt::format("{} leaves this layer alone", run.plan.policy);
  return "";
}

// One head's rows, and which of them stand before the policy at a block.
class HeadRows {
 public:
  HeadRows(const Recording& recording, const RecordingInfo& info, const HeadSelection& selection, bool values)
      : run_(run_of(info, selection.run)),
        window_(capture::recorded_rules(info, selection.layer).window),
        keys_(recording.keys(selection.run, selection.layer, selection.kv_head, 0, run_.n_tokens)),
        evicted_at_(recording.trace(selection.run, selection.layer, selection.kv_head).evicted_at) {
    if (values)
      values_ = recording.values(selection.run, selection.layer, selection.kv_head, 0, run_.n_tokens);
    evicted_at_.resize(run_.n_tokens, -1);
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
      if (evicted_at_[at] < 0 || evicted_at_[at] >= block) rows.push_back(static_cast<std::int32_t>(at));
    return rows;
  }

  RowMatrixF keys(const std::vector<std::int32_t>& rows, std::int64_t block) const {
    return placed_ ? gather(placed_->met_by(block), rows) : gather(keys_, rows);
  }
  RowMatrixF values(const std::vector<std::int32_t>& rows) const { return gather(values_, rows); }
  bool goes(std::int32_t position, std::int64_t block) const { return evicted_at_[position] == block; }
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
std::optional<ScoreAtBlock> score_of_block(const HeadRows& head, const analysis::Policy& policy,
                                           const HeadSelection& selection, const analysis::LayerCut& cut,
                                           std::int64_t block, std::int64_t position) {
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
  std::vector<std::uint8_t> by_policy(rows.size());
  policy.score(input, scores);
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (!std::isfinite(scores[i]))
      throw InvalidInput(fmt::format("the score of the token at position {} is {}", rows[i], scores[i]));
  const auto n_going = std::ranges::count_if(rows, [&](std::int32_t row) { return head.goes(row, block); });
  // Of budgets that are dealt anew after every block, what stayed then.
  const std::int64_t budget = policy.slots().deals_by_block() ? n_rows - n_going : cut.budgets.front();
  const std::int64_t most = std::min(budget, n_rows);
  policy.force(input, most, by_policy);
  const auto forced = analysis::forced_rows(policy.slots(), rows, by_policy, cut, most);
  const double score = scores[at];
  // Ties go to the lower position.
  std::int64_t rank = 1;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (scores[i] > score || (scores[i] == score && i < at)) ++rank;
  return ScoreAtBlock{block, score, rank, n_rows, forced[at] != 0, cut_of(head, rows, scores, forced, block)};
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
  const std::int64_t budget = run.plan.layer_budgets(selection.layer, info->model).at(selection.kv_head);
  const analysis::LayerCut cut{{&budget, 1}, run.plan.budget, info->n_prompt()};
  const HeadRows head(recording, *info, selection, policy->needs().values);
  for (std::int64_t block = 0; block < run.blocks_done; ++block) {
    if (recording::tokens_seen(run, block) <= position) continue;
    if (cancelled) throw Cancelled("the token's story was left off");
    try {
      const auto at = score_of_block(head, *policy, selection, cut, block, position);
      if (at) history.blocks.push_back(*at);
    } catch (const InvalidInput& error) {  // the recorded rows are no numbers
      return {{}, error.what()};
    }
    if (head.goes(static_cast<std::int32_t>(position), block)) break;
  }
  return history;
}

}  // namespace keyscope::measures
