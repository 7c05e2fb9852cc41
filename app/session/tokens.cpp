#include "app/session/tokens.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/rank_correlation.hpp"
#include "analysis/similarity.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/figures/labels.hpp"
#include "app/measures/token_story.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace keyscope::session {

TokenFacts token_facts(const recording::RecordingInfo& info, const HeadPoints& points, std::int64_t block,
                       std::int64_t position) {
  if (position < 0 || position >= points.n_tokens || block < 0 || block >= points.n_blocks())
    throw InvalidInput(fmt::format("token {} at block {}: the head has {} tokens in {} blocks", position,
                                   block, points.n_tokens, points.n_blocks()));
  TokenFacts facts;
  facts.position = static_cast<std::int32_t>(position);
  facts.id = measures::token_id(info, points.head.run, position);
  facts.text = figures::token_label(measures::token_bytes(info, points.head.run, position));
  facts.arrived = std::ranges::upper_bound(points.seen, position) - points.seen.begin();

  const recording::HeadTrace& trace = points.trace;
  const std::int32_t gone = trace.evicted_at[position];
  if (gone >= 0) facts.evicted_at = gone;
  facts.retained = gone < 0 || gone > block;
  const auto at = static_cast<std::size_t>(position);
  if (gone >= 0 && at < trace.evicted_margin.size() && !std::isnan(trace.evicted_margin[at]))
    facts.evicted_margin = trace.evicted_margin[at];
  const double cosine = analysis::cosine(points.keys.row(position).transpose().cast<double>(),
                                         points.mean_key.row(block).transpose());
  if (std::isfinite(cosine)) facts.score = -cosine;
  const bool attended = !info.runs.at(points.head.run).plan.replayed;
  if (attended && position < info.n_prompt() && at < trace.attention_received.size()) {
    facts.attention_received = trace.attention_received[at];
    if (at < trace.attention_queries.size() && trace.attention_queries[at] > 0)
      facts.attention_per_query = trace.attention_received[at] / trace.attention_queries[at];
  }
  return facts;
}

namespace {

std::string token_line(const recording::RecordingInfo& info, int run, const char* what,
                       std::int64_t position) {
  return fmt::format("{} {}  {}", what, format_count(position),
                     figures::token_label(measures::token_bytes(info, run, position)));
}

// Of several tokens the first of each stands in the other lines.
std::string value_line(const figures::Heatmap& map, float value, const char* why_none) {
  std::string line = std::isnan(value)
                         ? std::string(why_none)
                         : fmt::format("{} {}", map.long_name, format_value(static_cast<double>(value)));
  if (const auto rows = static_cast<long long>(map.y_step), columns = static_cast<long long>(map.x_step);
      rows > 1 || columns > 1)
    line += fmt::format(", {} of {} × {} cells", map.reduction, rows, columns);
  return line;
}

}  // namespace

std::vector<std::string> cell_facts(const recording::RecordingInfo& info, int run, const std::string& figure,
                                    const figures::Heatmap& map, const MatrixCell& cell) {
  if (!map.categories.empty()) {  // lives
    const std::string state =
        std::isnan(cell.value) ? "not seen yet" : map.categories[static_cast<std::size_t>(cell.value)];
    return {token_line(info, run, "token", cell.row), fmt::format("after block {}: {}", cell.column, state)};
  }
  if (figures::has_block_columns(figure))
    return {token_line(info, run, "token", cell.row), fmt::format("during block {}", cell.column),
            value_line(map, cell.value, "not in the cache")};
  const bool attends = map.id == "attention";  // its panel, also beside cosines
  return {token_line(info, run, attends ? "query" : "key", cell.row),
          token_line(info, run, attends ? "attends to key" : "and key", cell.column),
          value_line(map, cell.value, attends ? "not visible to this query" : "no value")};
}

namespace {

constexpr std::array<ShadeChoice, 5> kChoices{{
    {TokenShade::kAttention, "attention", "Attention received",
     "sum of weights over the prompt's queries, mean over the group"},
    {TokenShade::kPerQuery, "per-query", "Attention per query",
     "attention received, divided by the queries that could see the token"},
    {TokenShade::kScore, "score", "KeyDiff score", "−cos(key, mean of the keys seen by this block)"},
    {TokenShade::kKept, "kept", "Kept by whom",
     "both runs, this one alone, the one that it is compared with alone, or neither"},
    {TokenShade::kNone, "none", "Nothing", "plain text"},
}};

void fill_scores(const HeadPoints& points, std::int64_t block, std::vector<double>& values) {
  const auto n = static_cast<Eigen::Index>(values.size());
  const Eigen::VectorXd cosines =
      analysis::cosines_to(points.keys.topRows(n), points.mean_key.row(block).transpose());
  for (Eigen::Index i = 0; i < n; ++i)
    if (std::isfinite(cosines[i])) values[i] = -cosines[i];
}

// Of prompt tokens; a replayed run attended to nothing.
void fill_attention(const recording::RecordingInfo& info, const HeadPoints& points, bool per_query,
                    std::vector<double>& values) {
  const recording::HeadTrace& trace = points.trace;
  if (info.runs.at(points.head.run).plan.replayed) return;
  const auto n_prompt = static_cast<std::size_t>(info.n_prompt());
  for (std::size_t i = 0; i < std::min({values.size(), n_prompt, trace.attention_received.size()}); ++i) {
    if (!per_query)
      values[i] = trace.attention_received[i];
    else if (i < trace.attention_queries.size() && trace.attention_queries[i] > 0)
      values[i] = trace.attention_received[i] / trace.attention_queries[i];
  }
}

}  // namespace

std::span<const ShadeChoice> shade_choices() { return kChoices; }

std::vector<double> token_values(const recording::RecordingInfo& info, const HeadPoints& points,
                                 std::int64_t block, TokenShade shade) {
  const std::int64_t n_seen = points.seen[block];
  std::vector<double> values(n_seen, std::numeric_limits<double>::quiet_NaN());
  if (shade == TokenShade::kScore) fill_scores(points, block, values);
  if (shade == TokenShade::kAttention || shade == TokenShade::kPerQuery)
    fill_attention(info, points, shade == TokenShade::kPerQuery, values);
  return values;
}

std::vector<float> shade_strengths(std::span<const double> values) {
  std::vector<double> known;
  for (const double value : values)
    if (!std::isnan(value)) known.push_back(value);
  std::vector<float> strengths(values.size(), 0);
  if (known.size() < 2) return strengths;
  const std::vector<double> ranks = analysis::average_ranks(known);
  const auto others = static_cast<double>(known.size() - 1);
  std::size_t at = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isnan(values[i])) strengths[i] = static_cast<float>((ranks[at++] - 1) / others);
  return strengths;
}

namespace {

using Json = nlohmann::ordered_json;

template <typename T>
std::string cell(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : std::string();
}

template <typename T>
Json field(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

std::vector<TokenFacts> token_table(const recording::RecordingInfo& info, const HeadPoints& points,
                                    std::int64_t block, const TokenSet* only) {
  std::vector<TokenFacts> tokens;
  const std::int64_t n_seen = points.seen.at(block);
  tokens.reserve(only != nullptr ? only->size() : static_cast<std::size_t>(n_seen));
  if (only != nullptr) {
    for (const std::int32_t position : *only)
      if (position < n_seen) tokens.push_back(token_facts(info, points, block, position));
    return tokens;
  }
  for (std::int64_t position = 0; position < n_seen; ++position)
    tokens.push_back(token_facts(info, points, block, position));
  return tokens;
}

std::string tokens_as_csv(const recording::RecordingInfo& info, int run,
                          const std::vector<TokenFacts>& tokens) {
  std::string csv =
      "position,id,text,arrived,retained,evicted_at,evicted_margin,score,attention_received,"
      "attention_per_query\r\n";
  for (const TokenFacts& token : tokens)
    csv += fmt::format("{},{},{},{},{},{},{},{},{},{}\r\n", token.position, token.id,
                       csv_field(measures::token_bytes(info, run, token.position), true), token.arrived,
                       token.retained ? 1 : 0, cell(token.evicted_at), cell(token.evicted_margin),
                       cell(token.score), cell(token.attention_received), cell(token.attention_per_query));
  return csv;
}

std::string tokens_as_json(const recording::RecordingInfo& info, int run,
                           const std::vector<TokenFacts>& tokens, const std::string& where) {
  Json json;
  json["recording"] = info.source;
  json["selection"] = where;
  json["tokens"] = Json::array();
  for (const TokenFacts& token : tokens)
    json["tokens"].push_back({{"position", token.position},
                              {"id", token.id},
                              {"text", measures::token_bytes(info, run, token.position)},
                              {"arrived", token.arrived},
                              {"retained", token.retained},
                              {"evicted_at", field(token.evicted_at)},
                              {"evicted_margin", field(token.evicted_margin)},
                              {"score", field(token.score)},
                              {"attention_received", field(token.attention_received)},
                              {"attention_per_query", field(token.attention_per_query)}});
  return json_text(json, 1) + "\n";
}

}  // namespace keyscope::session
