#include "app/adoption/adoption.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/statistics.hpp"
#include "base/errors.hpp"
#include "base/interval_text.hpp"
#include "base/text.hpp"

namespace keyscope::adoption {

namespace {

constexpr std::string_view kTooFewPrompts = "measured on too few prompts for an interval";
constexpr double kConcentrated = 0.5, kDiffuse = 0.2;

// "0.300 [0.200, 0.400]", or the mean alone.
std::string with_interval(const analysis::BootstrapMean& mean) {
  return mean_text(mean.mean, mean.low, mean.high);
}

// How alike retained keys are against all keys, in the order of the sentences about it.
enum class Likeness { kMore, kLittleMore, kUncertain, kLess, kNoInterval };
constexpr std::array kLikenesses{Likeness::kMore, Likeness::kLittleMore, Likeness::kUncertain,
                                 Likeness::kLess, Likeness::kNoInterval};

Likeness likeness_of(const analysis::BootstrapMean& change) {
  if (!has_interval(change)) return Likeness::kNoInterval;
  if (change.low > 0) return change.mean >= kLeastCosineChange ? Likeness::kMore : Likeness::kLittleMore;
  return change.high < 0 ? Likeness::kLess : Likeness::kUncertain;
}

std::string likeness_text(Likeness likeness) {
  switch (likeness) {
    case Likeness::kMore:
      return fmt::format("more alike by {:g} or more, so that part of the budget is wasted,",
                         kLeastCosineChange);
    case Likeness::kLittleMore:
      return fmt::format("more alike, but by less than {:g},", kLeastCosineChange);
    case Likeness::kUncertain:
      return "not more alike with certainty";
    case Likeness::kLess:
      return "less alike";
    case Likeness::kNoInterval:
      break;
  }
  return fmt::format("not distinguished from them, as {},", kTooFewPrompts);
}

// "sink at 25% (0.600), sink at 50% (0.600)", of those that were measured and are of that likeness.
std::string alike_as(const Adoption& adoption, Likeness likeness) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < adoption.retained.size(); ++i) {
    const Retained& one = adoption.retained[i];
    if (one.cosine_change.n_samples == 0 || likeness_of(one.cosine_change) != likeness) continue;
    names.push_back(fmt::format("{} at {} ({})", adoption.candidates[i].policy, adoption.candidates[i].budget,
                                number_text(one.mean_pairwise_cosine.mean)));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// Of a mean that has an interval.
std::string_view side_of(const analysis::BootstrapMean& mean, std::string_view above, std::string_view below,
                         std::string_view across) {
  return mean.low > 0 ? above : mean.high < 0 ? below : across;
}

}  // namespace

std::vector<std::string> latency_doubts(const Adoption& adoption) {
  std::vector<benchmarks::PairedRatio> ratios;
  for (const Candidate& candidate : adoption.candidates)
    if (candidate.first_token_ratio) ratios.push_back(*candidate.first_token_ratio);
  return benchmarks::doubts_of(ratios);
}

bool all_affected(const Adoption& adoption) {
  return std::ranges::all_of(adoption.candidates, [](const Candidate& candidate) {
    return std::ranges::all_of(candidate.losses,
                               [](const TaskLoss& task) { return task.after_eviction >= 1; });
  });
}

namespace {

// Of the attention that positions receive, what the first one does: learned sinks have their part of the
// whole.
double share_of_first(const Concentration& concentration) {
  const analysis::BootstrapMean& sinks = concentration.learned_sink_share;
  const double received = sinks.n_samples > 0 ? 1 - sinks.mean : 1;
  return concentration.sink_metric.mean / received;
}

}  // namespace

double share_without_first(const Concentration& concentration) {
  const double first = share_of_first(concentration), top = concentration.top_share.mean;
  if (!std::isfinite(first)) return top;
  return first < 1 ? std::max(0.0, (top - first) / (1 - first)) : 0;
}

Focus focus_of(const Concentration& concentration) {
  const double share = share_without_first(concentration);
  if (share >= kConcentrated) return Focus::kConcentrated;
  return share < kDiffuse ? Focus::kDiffuse : Focus::kBetween;
}

std::string focus_text(const Concentration& concentration) {
  const double top = concentration.top_share.mean, first = share_of_first(concentration);
  const analysis::BootstrapMean& sinks = concentration.learned_sink_share;
  const std::string of_sinks =
      sinks.n_samples > 0
          ? fmt::format("Learned sinks take {:.0f} % of attention; of the rest: ", 100 * sinks.mean)
          : "";
  const std::string measured =
      of_sinks +
      fmt::format(
          "The 1 % of positions that receive most attention receive {:.0f} % of it, the first position "
          "{:.0f} %{}"
          ". Of what the first leaves, the others of them receive {:.0f} % (a ratio of means over heads)",
          100 * top, 100 * first, first > top / 2 ? ", which makes up most of it" : "",
          100 * share_without_first(concentration));
  switch (focus_of(concentration)) {
    case Focus::kConcentrated:
      return measured +
             ": concentrated, which speaks for keeping what has received most (h2o). What the tasks "
             "lose decides";
    case Focus::kDiffuse:
      return measured +
             ": diffuse, which speaks for keeping keys that differ (keydiff). What the tasks lose "
             "decides";
    case Focus::kBetween:
      break;
  }
  return measured +
         ": neither concentrated (50 % and more) nor diffuse (below 20 %). What the tasks lose decides";
}

std::string redundancy_text(const Adoption& adoption) {
  std::vector<std::string> parts;
  for (const Likeness likeness : kLikenesses)
    if (const std::string names = alike_as(adoption, likeness); !names.empty())
      parts.push_back(fmt::format("{} under {}", likeness_text(likeness), names));
  if (parts.empty()) return "";
  return fmt::format("Against all keys ({}), prompt by prompt and in mean cosine, retained keys are {}",
                     number_text(adoption.full_retained.mean_pairwise_cosine.mean), fmt::join(parts, "; "));
}

std::string examples_text(const TaskOutcome& task) {
  const std::string examples = counted(task.n_examples, "example");
  return task.n_data_sets == 1 ? examples : fmt::format("{} of {} data sets", examples, task.n_data_sets);
}

std::string premise_text(const Geometry& geometry) {
  const std::string unlike =
      has_interval(geometry.spearman)
          ? fmt::format("Keys unlike the rest receive {} (ρ {})",
                        side_of(geometry.spearman, "more attention here",
                                "less attention here, against KeyDiff's premise",
                                "neither more nor less attention with certainty"),
                        with_interval(geometry.spearman))
          : fmt::format("Whether keys unlike the rest receive more attention was {} (ρ {})", kTooFewPrompts,
                        with_interval(geometry.spearman));
  const analysis::BootstrapMean& cosine = geometry.key_query_mean_cosine;
  const std::string opposed =
      has_interval(cosine)
          ? fmt::format("mean key and mean query {} (cosine {})",
                        side_of(cosine, "lie on one side, against KeyDiff's premise", "oppose each other",
                                "are neither opposed nor aligned with certainty"),
                        with_interval(cosine))
          : fmt::format("whether mean key and mean query oppose each other was {} (cosine {})",
                        kTooFewPrompts, with_interval(cosine));
  return unlike + "; " + opposed;
}

namespace {

// Rows of one KV head in one layer that may stay: a window's and a budget's, if there are any.
std::int64_t most_rows(const capture::ModelConfig& config, int layer, std::int64_t n_tokens,
                       const analysis::Budget* budget) {
  std::int64_t rows = n_tokens;
  if (config.window(layer) > 0) rows = std::min(rows, config.window(layer));
  if (budget != nullptr) rows = std::min(rows, budget->rows_for(n_tokens));
  return rows;
}

// The most rows while blocks come in, each before its surplus goes.
std::int64_t peak_rows(std::int64_t most, std::int64_t n_tokens, std::int64_t block_size) {
  std::int64_t peak = 0;
  for (std::int64_t begin = 0, block = 0; begin < n_tokens; begin += block) {
    block = std::min(block_size, n_tokens - begin);
    peak = std::max(peak, std::min(most, begin) + block);
  }
  return peak;
}

// Elements of the keys and values of all layers, after a prompt.
std::int64_t sum_elements(const capture::ModelConfig& config, std::int64_t n_tokens,
                          const analysis::Budget* budget) {
  std::int64_t elements = 0;
  for (int layer = 0; layer < config.n_layers; ++layer)
    elements += config.cached_elements(layer) * most_rows(config, layer, n_tokens, budget);
  return elements;
}

// Likewise, at the peak.
std::int64_t sum_peak_elements(const capture::ModelConfig& config, std::int64_t n_tokens,
                               const analysis::Budget* budget, std::int64_t block_size) {
  std::int64_t elements = 0;
  for (int layer = 0; layer < config.n_layers; ++layer)
    elements += config.cached_elements(layer) *
                peak_rows(most_rows(config, layer, n_tokens, budget), n_tokens, block_size);
  return elements;
}

std::int64_t p95_of(std::span<const std::int64_t> lengths) {
  const std::vector<double> values(lengths.begin(), lengths.end());
  return std::llround(analysis::quantiles(values, std::array{0.95}).front());
}

}  // namespace

CacheMemory cache_memory(const capture::ModelConfig& config, std::int64_t element_bytes,
                         std::span<const std::int64_t> lengths, const analysis::Budget* budget,
                         std::int64_t block_size) {
  if (lengths.empty()) throw InvalidInput("prompt lengths: none are given; expected at least one");
  const auto bytes = static_cast<double>(element_bytes);
  const auto n_prompts = static_cast<double>(lengths.size());
  CacheMemory memory;
  for (const std::int64_t length : lengths) {
    if (length < 1) throw InvalidInput(fmt::format("prompt lengths: {} tokens; expected 1 or more", length));
    const auto kept = static_cast<double>(sum_elements(config, length, budget));
    memory.occupancy += kept / static_cast<double>(sum_elements(config, length, nullptr)) / n_prompts;
    memory.mean_bytes += kept * bytes / n_prompts;
  }
  memory.p95_length = p95_of(lengths);
  memory.p95_bytes = sum_elements(config, memory.p95_length, budget) * element_bytes;
  memory.p95_peak_bytes = sum_peak_elements(config, memory.p95_length, budget, block_size) * element_bytes;
  return memory;
}

}  // namespace keyscope::adoption
