#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include "app/measures/recording_measures.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::measures {
namespace {

using recording::HeadTrace;
using recording::Recording;
using recording::RecordingInfo;
using recording::RunInfo;

class Collector {
 public:
  explicit Collector(double tolerance, double rounding = 0) {
    found_.tolerance = tolerance + rounding;
    found_.rounding = rounding;
  }

  template <typename T>
  void add(const T* a, const T* b, std::size_t n) {
    // Several lanes, without a branch: each waits for its last result.
    constexpr std::size_t kLanes = 8;
    std::array<double, kLanes> largest_value{}, largest_difference{};
    const auto compare = [&](std::size_t i, std::size_t lane) {
      const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
      // No tolerance is for NaN and infinities: they are alike or different, and the largest of nothing.
      const bool finite = std::isfinite(x) && std::isfinite(y);
      const bool alike = x == y || (std::isnan(x) && std::isnan(y));
      found_.n_different += finite || alike ? 0 : 1;
      const double value = finite ? std::max(std::abs(x), std::abs(y)) : 0;
      const double difference = finite ? std::abs(x - y) : 0;
      largest_value[lane] = value > largest_value[lane] ? value : largest_value[lane];
      largest_difference[lane] =
          difference > largest_difference[lane] ? difference : largest_difference[lane];
    };
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      for (std::size_t lane = 0; lane < kLanes; ++lane) compare(i + lane, lane);
    for (; i < n; ++i) compare(i, 0);
    found_.largest_value = std::max(found_.largest_value, std::ranges::max(largest_value));
    found_.largest_difference = std::max(found_.largest_difference, std::ranges::max(largest_difference));
  }

  // Integers, positions, ids: alike or not.
  template <typename T>
  void add_exact(const T* a, const T* b, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i)
      if (a[i] != b[i]) ++found_.n_different;
  }

  // What was found of another part of the same dataset.
  void add(const Collector& part) {
    found_.n_different += part.found_.n_different;
    found_.largest_value = std::max(found_.largest_value, part.found_.largest_value);
    found_.largest_difference = std::max(found_.largest_difference, part.found_.largest_difference);
  }

  DatasetDifference take(const std::string& run, int layer, const std::string& dataset) {
    DatasetDifference found = found_;
    found.run = run;
    found.layer = layer;
    found.dataset = dataset;
    *this = Collector(found_.tolerance - found_.rounding, found_.rounding);
    return found;
  }

 private:
  DatasetDifference found_;
};

// A pair of runs of one name.
struct Pair {
  const Recording& a;
  const Recording& b;
  int run_a = 0, run_b = 0;
  const RunInfo& info_a;
  const RunInfo& info_b;
  std::int64_t n_tokens = 0;  // that both have

  const std::string& name() const { return info_a.plan.name; }
};

// KV heads whose rows both have.
std::vector<int> common_heads(const RecordingInfo& a, const RecordingInfo& b, int layer) {
  std::vector<int> heads = a.kv_heads(layer);
  std::erase_if(heads, [&](int head) { return !b.heads.has(head); });
  return heads;
}

// Heads side by side.
//   compare: what the head's part of a dataset is collected with
void compare_heads(const std::vector<int>& heads, Collector& collector,
                   const std::function<void(int head, Collector& collector)>& compare) {
  std::vector<Collector> parts(heads.size(), collector);
  oneapi::tbb::parallel_for(std::size_t{0}, heads.size(),
                            [&](std::size_t i) { compare(heads[i], parts[i]); });
  for (const Collector& part : parts) collector.add(part);
}

void compare_attention(const Pair& pair, int layer, const std::vector<int>& query_heads,
                       Collector& collector) {
  constexpr std::int64_t kRows = 256;  // a matrix of all queries may be larger than memory
  const auto n = pair.n_tokens;
  compare_heads(query_heads, collector, [&](int head, Collector& part) {
    for (std::int64_t first = 0; first < n; first += kRows) {
      const std::int64_t count = std::min(kRows, n - first);
      const RowMatrixF x = pair.a.attention(pair.run_a, layer, head, first, count).leftCols(n);
      const RowMatrixF y = pair.b.attention(pair.run_b, layer, head, first, count).leftCols(n);
      part.add(x.data(), y.data(), x.size());
    }
  });
}

// Rows that were rounded when they were stored may differ by as much.
void compare_rows(const Pair& pair, int layer, const RecordingInfo& info, const RecordingInfo& other,
                  const ComparisonOptions& options, RecordingDifference& result) {
  Collector collector(options.tolerance,
                      recording::store_rounding(info.store) + recording::store_rounding(other.store));
  const std::vector<int> kv_heads = common_heads(info, other, layer);
  const int group = info.model.group_size(layer);
  std::vector<int> query_heads;
  for (const int head : kv_heads)
    for (int g = 0; g < group; ++g) query_heads.push_back(head * group + g);
  const auto n = pair.n_tokens;
  const auto compare = [&](const char* name, const std::vector<int>& heads, auto rows) {
    compare_heads(heads, collector, [&](int head, Collector& part) {
      const RowMatrixF x = (pair.a.*rows)(pair.run_a, layer, head, 0, n);
      const RowMatrixF y = (pair.b.*rows)(pair.run_b, layer, head, 0, n);
      part.add(x.data(), y.data(), std::min(x.size(), y.size()));
    });
    result.datasets.push_back(collector.take(pair.name(), layer, name));
  };
  if (info.keys && other.keys) compare("keys", kv_heads, &Recording::keys);
  if (info.queries && other.queries) compare("queries", query_heads, &Recording::queries);
  if (info.values && other.values) compare("values", kv_heads, &Recording::values);
  const bool replayed = pair.info_a.plan.replayed || pair.info_b.plan.replayed;
  if (!info.attention || !other.attention || replayed) return;
  Collector weights(options.tolerance);
  compare_attention(pair, layer, query_heads, weights);
  result.datasets.push_back(weights.take(pair.name(), layer, "attention"));
}

// Whether a row that one run evicted was so close to what it kept that rounding may decide. Its margin is
// relative to nothing that is recorded; keys' cosines, which most policies score by, are of the order of 1.
bool is_close_call(float margin, const ComparisonOptions& options) {
  return std::isfinite(margin) && std::abs(static_cast<double>(margin)) < options.close_call;
}

// The first block in which the two evicted other rows. From there on the caches differ, and with them what a
// row's margin is measured from.
std::int32_t first_other_block(const HeadTrace& x, const HeadTrace& y, std::size_t n) {
  std::int32_t first = std::numeric_limits<std::int32_t>::max();
  for (std::size_t i = 0; i < n; ++i)
    if (x.evicted_at[i] != y.evicted_at[i])
      for (const std::int32_t block : {x.evicted_at[i], y.evicted_at[i]})
        if (block >= 0) first = std::min(first, block);
  return first;
}

void compare_traces(const Pair& pair, int layer, int n_kv_heads, const ComparisonOptions& options,
                    RecordingDifference& result) {
  Collector received(options.tolerance), last(options.tolerance), queries(options.tolerance),
      norms(options.tolerance), margins(options.tolerance);
  const bool have_norms = pair.a.info()->has_value_norms(layer) && pair.b.info()->has_value_norms(layer);
  DatasetDifference evicted;
  const auto n = static_cast<std::size_t>(pair.n_tokens);
  std::vector<float> margins_x, margins_y;
  for (int head = 0; head < n_kv_heads; ++head) {
    const HeadTrace x = pair.a.trace(pair.run_a, layer, head), y = pair.b.trace(pair.run_b, layer, head);
    margins_x.clear(), margins_y.clear();
    const std::int32_t same_until = first_other_block(x, y, n);
    for (std::size_t i = 0; i < n; ++i) {
      if (x.evicted_at[i] == y.evicted_at[i]) {
        if (x.evicted_at[i] >= same_until) continue;
        margins_x.push_back(x.evicted_margin[i]), margins_y.push_back(y.evicted_margin[i]);
        continue;
      }
      const bool close =
          is_close_call(x.evicted_margin[i], options) || is_close_call(y.evicted_margin[i], options);
      ++(close ? evicted.n_close_calls : evicted.n_different);
    }
    margins.add(margins_x.data(), margins_y.data(), margins_x.size());
    received.add(x.attention_received.data(), y.attention_received.data(), n);
    last.add(x.attention_last.data(), y.attention_last.data(), n);
    queries.add_exact(x.attention_queries.data(), y.attention_queries.data(), n);
    if (have_norms) norms.add(x.value_norms.data(), y.value_norms.data(), n);
  }
  if (have_norms) result.datasets.push_back(norms.take(pair.name(), layer, "value_norms"));
  evicted.run = pair.name();
  evicted.layer = layer;
  evicted.dataset = "evicted_at";
  result.datasets.push_back(evicted);
  // Margins are differences of scores: what decides nothing above is no difference here.
  DatasetDifference by = margins.take(pair.name(), layer, "evicted_margin");
  if (by.largest_value > 0) by.tolerance += options.close_call / by.largest_value;
  result.datasets.push_back(by);
  if (pair.info_a.plan.replayed != pair.info_b.plan.replayed) return;  // one of them attended, the other not
  result.datasets.push_back(queries.take(pair.name(), layer, "attention_queries"));
  result.datasets.push_back(received.take(pair.name(), layer, "attention_received"));
  result.datasets.push_back(last.take(pair.name(), layer, "attention_last"));
}

// A part that only one of the two has.
//   layers: of which that is so, where it is not so of all
void note_absence(const Pair& pair, std::string_view dataset, bool in_a, const std::vector<int>& layers,
                  RecordingDifference& result) {
  const std::string of_layers = layers.empty()       ? ""
                                : layers.size() == 1 ? fmt::format(", layer {}", layers.front())
                                                     : ", layers " + shown_list(layers);
  result.structure.push_back(fmt::format("run {}{}: {} is only in {}", pair.name(), of_layers, dataset,
                                         (in_a ? pair.a : pair.b).info()->source));
}

// Of datasets that only one of the two has in some layer, whether the first is that one, and the layers.
using Absences = std::map<std::pair<std::string_view, bool>, std::vector<int>>;

// How many blocks, from the first on, are of the same tokens in both.
std::int64_t n_same_blocks(const Pair& pair) {
  const std::int64_t most = std::min(pair.info_a.blocks_done, pair.info_b.blocks_done);
  std::int64_t n = 0;
  while (n < most && recording::tokens_seen(pair.info_a, n) == recording::tokens_seen(pair.info_b, n)) ++n;
  return n;
}

// What the layer recorded of its attention as a whole. A replayed run has none of its own.
void compare_statistics(const Pair& pair, int layer, const ComparisonOptions& options, Absences& absences,
                        RecordingDifference& result) {
  if (pair.info_a.plan.replayed || pair.info_b.plan.replayed) return;
  const recording::AttentionStatistics x = pair.a.statistics(pair.run_a, layer),
                                       y = pair.b.statistics(pair.run_b, layer);
  const auto add = [&](const char* dataset, const auto& a, const auto& b) {
    if (a.size() == 0 && b.size() == 0) return;
    if (a.size() == 0 || b.size() == 0) return absences[{dataset, a.size() > 0}].push_back(layer);
    Collector collector(options.tolerance);
    const auto n = static_cast<std::size_t>(std::min(a.size(), b.size()));
    if constexpr (std::is_same_v<std::decay_t<decltype(*a.data())>, std::int64_t>)
      collector.add_exact(a.data(), b.data(), n);
    else
      collector.add(a.data(), b.data(), n);
    result.datasets.push_back(collector.take(pair.name(), layer, dataset));
  };
  const std::int64_t n_prompt = pair.a.info()->n_prompt();
  const auto columns = [](const auto& matrix, std::int64_t n) {
    return matrix.leftCols(std::min<Eigen::Index>(matrix.cols(), n)).eval();
  };
  add("attention_entropy", columns(x.entropy, pair.n_tokens), columns(y.entropy, pair.n_tokens));
  const std::int64_t n_blocks = n_same_blocks(pair);
  add("attention_sink", columns(x.sink, n_blocks), columns(y.sink, n_blocks));
  add("sink_logit", pair.a.sink_logits(pair.run_a, layer), pair.b.sink_logits(pair.run_b, layer));
  if (pair.n_tokens < n_prompt) return;  // the others are there once the prompt was read
  add("attention_window", columns(x.window, pair.n_tokens), columns(y.window, pair.n_tokens));
  add("attention_gini", x.gini, y.gini);
  add("attention_top_share", x.top_share, y.top_share);
  add("held_bytes", x.held_bytes, y.held_bytes);
  add("packed_bytes", x.packed_bytes, y.packed_bytes);
}

// Where the router sent the tokens that both have. Experts whose scores lie close together may change places
// by rounding, which then shows.
void compare_routing(const Pair& pair, int layer, const ComparisonOptions& options,
                     RecordingDifference& result) {
  const recording::LayerRouting x = pair.a.routing(pair.run_a, layer), y = pair.b.routing(pair.run_b, layer);
  const Eigen::Index n = std::min(x.experts.rows(), y.experts.rows());
  if (n == 0) return;
  if (x.experts.cols() != y.experts.cols()) {
    result.structure.push_back(fmt::format("run {}, layer {}: {} experts of a token against {}", pair.name(),
                                           layer, x.experts.cols(), y.experts.cols()));
    return;
  }
  Collector collector(options.tolerance);
  collector.add_exact(x.experts.data(), y.experts.data(), n * x.experts.cols());
  result.datasets.push_back(collector.take(pair.name(), layer, "expert"));
  collector.add(x.weights.data(), y.weights.data(), n * x.weights.cols());
  result.datasets.push_back(collector.take(pair.name(), layer, "expert_weight"));
  collector.add(x.entropy.data(), y.entropy.data(), n);
  result.datasets.push_back(collector.take(pair.name(), layer, "router_entropy"));
}

// Tokens that both have, but not with the same text.
std::int64_t n_other_texts(const recording::TokenText& a, const recording::TokenText& b) {
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < std::min(a.size(), b.size()); ++i) n += a.token(i) != b.token(i) ? 1 : 0;
  return n;
}

// What the two runs were told to do.
void note_plans(const Pair& pair, RecordingDifference& result) {
  const auto &x = pair.info_a.plan, &y = pair.info_b.plan;
  const auto note = [&](bool alike, const std::string& a, const std::string& b) {
    if (!alike) result.structure.push_back(fmt::format("run {}: {} against {}", pair.name(), a, b));
  };
  const auto rows = [](const recording::RunPlan& plan) {
    return fmt::format("{} {} N = {} B = {}", plan.policy, plan.parameters, plan.budget, plan.block_size);
  };
  note(rows(x) == rows(y), rows(x), rows(y));
  if (x.budgets != y.budgets)
    result.structure.push_back(fmt::format("run {}: budgets of layers and heads are others", pair.name()));
  const auto cache = [](const recording::RunPlan& plan) {
    const analysis::CacheFormat& format = plan.cache_format;
    return fmt::format(
        "cache of {}{}", analysis::cache_dtype_name(format.dtype),
        format.quantises() ? fmt::format(" by {}", analysis::cache_scales_name(format.scales)) : "");
  };
  note(x.cache_format == y.cache_format, cache(x), cache(y));
  const auto flag = [&](bool a, bool b, const char* yes, const char* no) {
    note(a == b, a ? yes : no, b ? yes : no);
  };
  flag(x.replayed, y.replayed, "replayed", "captured");
  flag(x.oracle, y.oracle, "scored after the whole prompt", "scored block by block");
  flag(x.cache_positions, y.cache_positions, "positions in the cache", "positions in the text");
}

// Ids, and the text of each.
void compare_generated(const Pair& pair, RecordingDifference& result) {
  const recording::TokenText &x = pair.info_a.generated, &y = pair.info_b.generated;
  DatasetDifference text;
  text.run = pair.name();
  text.layer = -1;
  text.dataset = "generated_text";
  text.n_different = n_other_texts(x, y);
  result.datasets.push_back(text);
}

void compare_run(const Pair& pair, const ComparisonOptions& options, RecordingDifference& result) {
  const auto &x = pair.info_a, &y = pair.info_b;
  Collector exact(options.tolerance);
  const auto lists = [&](const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b,
                         const char* name) {
    exact.add_exact(a.data(), b.data(), std::min(a.size(), b.size()));
    if (a.size() != b.size())
      result.structure.push_back(
          fmt::format("run {}: {} has {} entries against {}", pair.name(), name, a.size(), b.size()));
    result.datasets.push_back(exact.take(pair.name(), -1, name));
  };
  note_plans(pair, result);
  lists(x.block_start, y.block_start, "block_start");
  lists(x.generated.id, y.generated.id, "generated");
  compare_generated(pair, result);
  lists(x.top_ids, y.top_ids, "top_ids");
  Collector floats(options.tolerance);
  floats.add(x.top_logits.data(), y.top_logits.data(), std::min(x.top_logits.size(), y.top_logits.size()));
  result.datasets.push_back(floats.take(pair.name(), -1, "top_logits"));
  if (x.n_scored == 0 && y.n_scored == 0) return;
  if (x.n_scored == 0 || y.n_scored == 0) return note_absence(pair, "logits", x.n_scored > 0, {}, result);
  const RowMatrixF a = pair.a.logits(pair.run_a), b = pair.b.logits(pair.run_b);
  if (a.cols() != b.cols()) {
    result.structure.push_back(
        fmt::format("run {}: logits of {} tokens against {}", pair.name(), a.cols(), b.cols()));
    return;
  }
  const Eigen::Index rows = std::min(a.rows(), b.rows());  // of the last prompt positions
  const RowMatrixF tail_a = a.bottomRows(rows), tail_b = b.bottomRows(rows);
  floats.add(tail_a.data(), tail_b.data(), tail_a.size());
  result.datasets.push_back(floats.take(pair.name(), -1, "logits"));
}

void require_comparable(const RecordingInfo& a, const RecordingInfo& b) {
  const auto shape = [](const RecordingInfo& info) {
    return fmt::format("{} layers, {} query and {}{} KV heads of {}", info.model.n_layers, info.model.n_heads,
                       info.model.layer_heads.empty() ? "" : "up to ", info.model.n_kv_heads,
                       info.model.head_dim);
  };
  if (shape(a) != shape(b) || a.model.layer_heads != b.model.layer_heads)
    throw UsageError(fmt::format("{} is of a model of {}, {} of one of {}: there is nothing to compare",
                                 a.source, shape(a), b.source, shape(b)));
  const auto first = std::ranges::mismatch(a.prompt.id, b.prompt.id);
  if (first.in1 != a.prompt.id.end() || first.in2 != b.prompt.id.end())
    throw UsageError(
        fmt::format("the prompts of {} and {} differ from token {} on: there is nothing to compare", a.source,
                    b.source, first.in1 - a.prompt.id.begin()));
}

std::vector<int> common_layers(const RecordingInfo& a, const RecordingInfo& b, RecordingDifference& result) {
  std::vector<int> layers;
  std::ranges::set_intersection(a.layers, b.layers, std::back_inserter(layers));
  for (const auto& [info, other] : {std::pair{&a, &b}, {&b, &a}})
    for (const int layer : info->all_layers()) {
      const bool shared = std::ranges::find(other->layers, layer) != other->layers.end();
      const bool keyless = std::ranges::find(other->keyless_layers, layer) != other->keyless_layers.end();
      if (!shared && !keyless)
        result.structure.push_back(fmt::format("layer {} is only in {}", layer, info->source));
      else if (keyless && info->has_keys(layer))
        result.structure.push_back(fmt::format("layer {} has keys only in {}", layer, info->source));
    }
  return layers;
}

void note_contents(const RecordingInfo& a, const RecordingInfo& b, RecordingDifference& result) {
  const auto note = [&](const char* what, bool in_a, bool in_b) {
    if (in_a != in_b)
      result.structure.push_back(fmt::format("{} are only in {}", what, (in_a ? a : b).source));
  };
  if (const std::int64_t n = n_other_texts(a.prompt, b.prompt); n > 0)
    result.structure.push_back(fmt::format("the texts of {} of the prompt's tokens are others", n));
  note("keys", a.keys, b.keys);
  note("queries", a.queries, b.queries);
  note("values", a.values, b.values);
  note("norms of values", a.value_norms, b.value_norms);
  note("attention weights", a.attention, b.attention);
  note("learned sinks", a.sinks, b.sinks);
  note("layers' experts", !a.expert_layers.empty(), !b.expert_layers.empty());
  for (int head = 0; head < a.model.n_kv_heads; ++head)
    note(fmt::format("rows of KV head {}", head).c_str(), a.heads.has(head), b.heads.has(head));
  for (const RunInfo& run : b.runs)
    if (a.run_index(run.plan.name) < 0)
      result.structure.push_back(fmt::format("run {} is only in {}", run.plan.name, b.source));
}

}  // namespace

bool RecordingDifference::agrees() const {
  return structure.empty() && std::ranges::all_of(datasets, &DatasetDifference::agrees);
}

RecordingDifference compare_recordings(const Recording& a, const Recording& b,
                                       const ComparisonOptions& options,
                                       const std::function<void(std::int64_t, std::int64_t)>& progress,
                                       const std::atomic<bool>& cancelled) {
  const auto info_a = a.info(), info_b = b.info();
  require_comparable(*info_a, *info_b);
  RecordingDifference result;
  note_contents(*info_a, *info_b, result);
  const std::vector<int> layers = common_layers(*info_a, *info_b, result);
  std::int64_t done = 0;
  const auto total = static_cast<std::int64_t>(info_a->runs.size() * layers.size());
  for (std::size_t run = 0; run < info_a->runs.size(); ++run) {
    const RunInfo& run_a = info_a->runs[run];
    const int other = info_b->run_index(run_a.plan.name);
    if (other < 0) {
      result.structure.push_back(fmt::format("run {} is only in {}", run_a.plan.name, info_a->source));
      continue;
    }
    const RunInfo& run_b = info_b->runs[other];
    const Pair pair{
        a, b, static_cast<int>(run), other, run_a, run_b, std::min(run_a.n_tokens, run_b.n_tokens)};
    if (run_a.n_tokens != run_b.n_tokens)
      result.structure.push_back(
          fmt::format("run {}: {} tokens against {}", pair.name(), run_a.n_tokens, run_b.n_tokens));
    compare_run(pair, options, result);
    Absences absences;
    for (const int layer : layers) {
      if (cancelled) throw Cancelled("interrupted; nothing was changed");
      compare_rows(pair, layer, *info_a, *info_b, options, result);
      compare_traces(pair, layer, info_a->model.heads(layer).n_kv_heads, options, result);
      compare_statistics(pair, layer, options, absences, result);
      progress(++done, total);
    }
    for (const auto& [absent, of_layers] : absences)
      note_absence(pair, absent.first, absent.second,
                   of_layers.size() == layers.size() ? std::vector<int>() : of_layers, result);
    for (const int layer : info_a->expert_layers)
      if (std::ranges::binary_search(info_b->expert_layers, layer))
        compare_routing(pair, layer, options, result);
  }
  return result;
}

}  // namespace keyscope::measures
