#include "app/session/token_shades.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "analysis/rank_correlation.hpp"
#include "analysis/similarity.hpp"

namespace keyscope::session {
namespace {

constexpr std::array<ShadeChoice, 4> kChoices{{
    {TokenShade::kAttention, "attention", "Attention received",
     "sum of weights over the prompt's queries, mean over the group"},
    {TokenShade::kPerQuery, "per-query", "Attention per query",
     "attention received, divided by the queries that could see the token"},
    {TokenShade::kScore, "score", "KeyDiff score", "−cos(key, mean of the keys seen by this block)"},
    {TokenShade::kNone, "none", "Nothing", "plain text"},
}};

void fill_scores(const HeadPoints& points, std::int64_t block, std::vector<double>& values) {
  const auto n = static_cast<Eigen::Index>(values.size());
  const Eigen::VectorXd cosines =
      analysis::cosines_to(points.keys.topRows(n), points.mean_key.row(block).transpose());
  for (Eigen::Index i = 0; i < n; ++i)
    if (std::isfinite(cosines[i])) values[static_cast<std::size_t>(i)] = -cosines[i];
}

// Of prompt tokens; a replayed run attended to nothing.
void fill_attention(const recording::RecordingInfo& info, const HeadPoints& points, bool per_query,
                    std::vector<double>& values) {
  const recording::HeadTrace& trace = points.trace;
  if (info.runs.at(static_cast<std::size_t>(points.head.run)).plan.replayed) return;
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
  const auto n_seen = static_cast<std::size_t>(points.seen[static_cast<std::size_t>(block)]);
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

}  // namespace keyscope::session
