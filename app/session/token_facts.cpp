#include "app/session/tokens.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "analysis/similarity.hpp"
#include "app/figures/token_label.hpp"
#include "app/measures/token_story.hpp"

namespace keyscope::session {

std::string token_bytes(const recording::RecordingInfo& info, int run, std::int64_t position) {
  return measures::token_bytes(info, run, position);
}

TokenFacts token_facts(const recording::RecordingInfo& info, const HeadPoints& points, std::int64_t block,
                       std::int64_t position) {
  if (position < 0 || position >= points.n_tokens || block < 0 || block >= points.n_blocks())
    throw InvalidInput(fmt::format("token {} at block {}: the head has {} tokens in {} blocks", position,
                                   block, points.n_tokens, points.n_blocks()));
  TokenFacts facts;
  facts.position = static_cast<std::int32_t>(position);
  facts.id = measures::token_id(info, points.head.run, position);
  facts.text = figures::token_label(token_bytes(info, points.head.run, position));
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

}  // namespace keyscope::session
