#include "app/measures/token_story.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

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
  const recording::TokenText& generated = info.runs.at(static_cast<std::size_t>(run)).generated;
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
  for (const ScoreMoment& moment : history.moments)
    list.push_back({{"block", moment.block},
                    {"score", moment.score},
                    {"rank", moment.rank},
                    {"n_rows", moment.n_rows},
                    {"forced", moment.forced},
                    {"cut", optional_json(moment.cut)}});
  return list;
}

}  // namespace

std::string token_bytes(const RecordingInfo& info, int run, std::int64_t position) {
  const TokenPlace place = find_token(info, run, position);
  return place.tokens ? place.tokens->token(place.index) : std::string();
}

std::int32_t token_id(const RecordingInfo& info, int run, std::int64_t position) {
  const TokenPlace place = find_token(info, run, position);
  return place.tokens ? place.tokens->id[static_cast<std::size_t>(place.index)] : -1;
}

TokenStory tell_token(const Recording& recording, const HeadSelection& head, std::int64_t position,
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

}  // namespace keyscope::measures
