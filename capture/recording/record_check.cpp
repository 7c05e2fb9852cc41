#include "capture/recording/record_check.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::recording {
namespace {

void expect(bool holds, const std::string& where, std::string_view what, std::int64_t found,
            std::int64_t expected) {
  if (!holds) throw InvalidInput(fmt::format("{}: {} is {}; expected {}", where, what, found, expected));
}

void expect_size(std::size_t found, std::int64_t expected, const std::string& where, std::string_view what) {
  expect(static_cast<std::int64_t>(found) == expected, where, fmt::format("number of {}", what),
         static_cast<std::int64_t>(found), expected);
}

void check_positions(const std::vector<std::int32_t>& positions, std::int64_t n_seen,
                     const std::string& where) {
  if (positions.empty()) return;
  const bool ascending =
      std::adjacent_find(positions.begin(), positions.end(), std::greater_equal<>()) == positions.end();
  if (!ascending || positions.front() < 0 || positions.back() >= n_seen)
    throw InvalidInput(fmt::format("{}: positions must ascend within [0, {})", where, n_seen));
}

void check_evictions(const HeadEvictions& head, std::int64_t n_seen, const std::string& where) {
  check_positions(head.position, n_seen, where);
  expect_size(head.margin.size(), static_cast<std::int64_t>(head.position.size()), where, "eviction margins");
}

void check_attention(const HeadAttention& head, std::int64_t n_seen, bool last_block,
                     const std::string& where) {
  const auto n_rows = static_cast<std::int64_t>(head.position.size());
  check_positions(head.position, n_seen, where);
  expect_size(head.received.size(), n_rows, where, "attention sums");
  expect_size(head.queries.size(), n_rows, where, "attention query counts");
  if (last_block || !head.last.empty())
    expect_size(head.last.size(), n_rows, where, "last attention weights");
}

// Of a layer that has no keys nothing is recorded but its experts.
void check_keyless(const LayerBlock& layer, const std::string& where) {
  const bool empty = layer.keys.empty() && layer.queries.empty() && layer.values.empty() &&
                     layer.value_norms.empty() && layer.evictions.empty() && layer.attention.empty() &&
                     layer.attention_rows.empty() && layer.entropy.empty() && layer.attention_sink.empty() &&
                     layer.sink_logits.empty() && layer.attention_window.empty() && layer.gini.empty() &&
                     layer.top_share.empty();
  if (!empty) throw InvalidInput(where + ": rows or attention of a layer that has no keys");
}

void check_sinks(const RecordPlan& plan, const LayerBlock& layer, const std::string& where) {
  for (const auto& [n, what] : {std::pair{layer.attention_sink.size(), "sums of the sinks' weights"},
                                std::pair{layer.sink_logits.size(), "sinks' scores"}})
    if (n > 0) expect_size(n, plan.sinks ? plan.model.n_heads : 0, where, what);
}

void check_layer(const RecordPlan& plan, const BlockRecord& record, const LayerBlock& layer, bool last_block,
                 const std::string& where) {
  if (!plan.has_keys(layer.layer)) return check_keyless(layer, where);
  const ModelInfo& model = plan.model;
  const auto [n_all_kv_heads, head_dim] = model.heads(layer.layer);
  const std::int64_t row_values = std::int64_t{record.n_new} * head_dim;
  const std::int64_t n_seen = std::int64_t{record.start} + record.n_new;
  const std::int64_t n_kv_heads = plan.n_row_kv_heads(layer.layer), n_heads = plan.n_row_heads(layer.layer);
  expect_size(layer.keys.size(), plan.keys ? n_kv_heads * row_values : 0, where, "key values");
  expect_size(layer.queries.size(), plan.queries ? n_heads * row_values : 0, where, "query values");
  expect_size(layer.values.size(), plan.values ? n_kv_heads * row_values : 0, where, "value values");
  expect_size(layer.value_norms.size(),
              plan.has_value_norms(layer.layer) ? std::int64_t{n_all_kv_heads} * record.n_new : 0, where,
              "norms of values");
  expect_size(layer.attention_rows.size(), plan.attention ? n_heads * record.n_new * n_seen : 0, where,
              "attention weights");
  if (!layer.entropy.empty())
    expect_size(layer.entropy.size(), std::int64_t{model.n_heads} * record.n_new, where, "entropies");
  if (!layer.attention_window.empty())
    expect_size(layer.attention_window.size(), n_all_kv_heads * plan.n_prompt(), where, "window sums");
  if (!layer.gini.empty()) expect_size(layer.gini.size(), model.n_heads, where, "Gini coefficients");
  if (!layer.top_share.empty()) expect_size(layer.top_share.size(), model.n_heads, where, "top shares");
  check_sinks(plan, layer, where);
  if (!layer.settled_keys.empty())
    expect_size(layer.settled_keys.size(), plan.keys ? n_kv_heads : 0, where, "heads with settled keys");
  for (const SettledKeys& head : layer.settled_keys) {
    check_positions(head.position, record.start, where);
    expect_size(head.keys.size(), std::ssize(head.position) * head_dim, where, "settled key values");
  }
  for (const auto* bytes : {&layer.held_bytes, &layer.packed_bytes})
    if (!bytes->empty()) expect_size(bytes->size(), n_all_kv_heads, where, "heads with bytes");
  if (!layer.evictions.empty())
    expect_size(layer.evictions.size(), n_all_kv_heads, where, "heads with evictions");
  if (!layer.attention.empty())
    expect_size(layer.attention.size(), n_all_kv_heads, where, "heads with attention");
  for (const auto& head : layer.evictions) check_evictions(head, n_seen, where);
  for (const auto& head : layer.attention) check_attention(head, n_seen, last_block, where);
}

bool ascend_below(const std::vector<int>& indices, int end) {
  const bool ascending = std::ranges::adjacent_find(indices, std::greater_equal<>()) == indices.end();
  return indices.empty() || (ascending && indices.front() >= 0 && indices.back() < end);
}

// The kinds of layers against the recorded ones.
void check_kinds(const RecordPlan& plan) {
  for (const auto& [layers, what] :
       {std::pair{&plan.expert_layers, "with experts"}, std::pair{&plan.keyless_layers, "without keys"}})
    if (!std::ranges::includes(plan.layers, *layers))
      throw InvalidInput(fmt::format("recording plan: layers {} {} are not all among the recorded {}",
                                     shown_list(*layers), what, shown_list(plan.layers)));
  if (plan.counted_layer() < 0)
    throw InvalidInput("recording plan: none of the layers to record has keys; at least one must");
  if (!plan.expert_layers.empty() && (plan.experts_per_token < 1 || plan.experts_per_token > plan.n_experts))
    throw InvalidInput(fmt::format("recording plan: {} of {} experts a token cannot be",
                                   plan.experts_per_token, plan.n_experts));
}

// Where layers differ, each must have the heads that are recorded, and a lender that is like it.
void check_layers(const RecordPlan& plan) {
  const ModelInfo& model = plan.model;
  const auto has_each = [&](std::size_t n) { return n == 0 || std::cmp_equal(n, model.n_layers); };
  if (!has_each(model.layer_heads.size()) || !has_each(model.layer_lenders.size()))
    throw InvalidInput("recording plan: heads or lenders of some layers only");
  for (int layer = 0; layer < model.n_layers; ++layer) {
    const auto [n_kv_heads, head_dim] = model.heads(layer);
    const int lender = model.lender(layer);
    const bool sound = n_kv_heads >= 1 && n_kv_heads <= model.n_kv_heads && model.n_heads % n_kv_heads == 0 &&
                       head_dim >= 1 && head_dim <= model.head_dim;
    const bool lent = lender >= 0 && lender <= layer && model.lender(lender) == lender &&
                      model.heads(lender) == model.heads(layer);
    if (!sound || !lent)
      throw InvalidInput(
          fmt::format("recording plan: layer {} of {} KV heads of {} with the keys of layer {} cannot be",
                      layer, n_kv_heads, head_dim, lender));
  }
  for (const int layer : plan.layers)
    if (!ascend_below(plan.heads.kv_heads, model.heads(layer).n_kv_heads))
      throw InvalidInput(fmt::format("recording plan: KV heads [{}] must ascend below {}, as layer {} has",
                                     shown_list(plan.heads.kv_heads), model.heads(layer).n_kv_heads, layer));
}

void check_run(const RecordPlan& plan, const RunPlan& run) {
  const std::string where = fmt::format("run '{}'", run.name);
  if (run.name.empty() || run.name == "." || run.name.find('/') != std::string::npos)
    throw InvalidInput(where + ": not a name for a group of a recording");
  if (run.block_size < 1 || run.n_prompt_blocks < 1 || run.max_generated < 0 || run.budget < 0 ||
      run.n_prompt_blocks > plan.n_prompt())
    throw InvalidInput(fmt::format("{}: block size {}, {} prompt blocks, budget {}, generation {} cannot be",
                                   where, run.block_size, run.n_prompt_blocks, run.budget,
                                   run.max_generated));
}

}  // namespace

void check_text(const TokenText& text, const std::string& what) {
  if (text.offset.empty() && text.text.empty()) return;  // a model without a tokenizer
  expect_size(text.offset.size(), text.size() + 1, what, "text offsets");
  if (text.offset.front() != 0 || text.offset.back() != static_cast<std::int64_t>(text.text.size()) ||
      !std::is_sorted(text.offset.begin(), text.offset.end()))
    throw InvalidInput(fmt::format("{}: text offsets must ascend from 0 to {}", what, text.text.size()));
}

void check_plan(const RecordPlan& plan) {
  const ModelInfo& model = plan.model;
  if (model.n_layers < 1 || model.n_kv_heads < 1 || model.head_dim < 1 || model.n_heads < model.n_kv_heads ||
      model.n_heads % model.n_kv_heads != 0)
    throw InvalidInput(fmt::format("recording plan: {} layers, {} heads, {} KV heads of {} cannot be",
                                   model.n_layers, model.n_heads, model.n_kv_heads, model.head_dim));
  if (plan.n_prompt() < 1) throw InvalidInput("recording plan: the prompt is empty");
  check_text(plan.prompt, "recording plan: prompt");
  if (plan.runs.empty() || plan.layers.empty()) throw InvalidInput("recording plan: no run or no layer");
  if (plan.logits && (plan.vocab_size < 1 || plan.score_last < 1))
    throw InvalidInput("recording plan: logits of no position or no vocabulary");
  if (!ascend_below(plan.layers, model.n_layers))
    throw InvalidInput(fmt::format("recording plan: layers must ascend below {}", model.n_layers));
  check_kinds(plan);
  check_layers(plan);
  std::set<std::string> names;
  for (const RunPlan& run : plan.runs) {
    check_run(plan, run);
    if (!names.insert(run.name).second)
      throw InvalidInput(fmt::format("recording plan: two runs '{}'", run.name));
  }
}

void check_routing(const RecordPlan& plan, const RoutingRecord& record) {
  if (record.run < 0 || static_cast<std::size_t>(record.run) >= plan.runs.size())
    throw InvalidInput(fmt::format("recording: there is no run {}", record.run));
  const RunPlan& run = plan.runs[record.run];
  const std::string where = fmt::format("recording: run '{}', experts of layer {}", run.name, record.layer);
  if (!plan.has_experts(record.layer)) throw InvalidInput(where + ": it has none that are recorded");
  const auto n = static_cast<std::int64_t>(record.entropy.size());
  const std::int64_t limit = run.max_tokens(plan.n_prompt());
  if (record.first < 0 || n < 1 || n > limit - record.first)
    throw InvalidInput(
        fmt::format("{}: tokens [{}, {}) of {}", where, record.first, record.first + n, limit));
  expect_size(record.experts.size(), n * plan.experts_per_token, where, "experts");
  expect_size(record.weights.size(), n * plan.experts_per_token, where, "experts' weights");
  for (const std::int32_t expert : record.experts)
    if (expert < 0 || expert >= plan.n_experts)
      throw InvalidInput(fmt::format("{}: expert {} of {}", where, expert, plan.n_experts));
}

BlockOrder::BlockOrder(std::shared_ptr<const RecordPlan> plan) : plan_(std::move(plan)) {
  const std::size_t n_layers = plan_->by_layers() ? plan_->layers.size() : 1;
  next_.assign(plan_->runs.size(), std::vector<Next>(n_layers));
}

// Which of a run's sequences a record belongs to: under the layer schedule, each layer's prompt is one.
std::size_t BlockOrder::sequence(const BlockRecord& record, const std::string& where) const {
  if (!plan_->by_layers() || !record.prompt) return 0;
  expect_size(record.layers.size(), 1, where, "layers");
  const auto found = std::find(plan_->layers.begin(), plan_->layers.end(), record.layers.front().layer);
  if (found == plan_->layers.end())
    throw InvalidInput(fmt::format("{}: layer {} is not recorded", where, record.layers.front().layer));
  return found - plan_->layers.begin();
}

void BlockOrder::check(const BlockRecord& record) const {
  if (record.run < 0 || static_cast<std::size_t>(record.run) >= plan_->runs.size())
    throw InvalidInput(fmt::format("recording: there is no run {}", record.run));
  const RunPlan& run = plan_->runs[record.run];
  const std::string where = fmt::format("recording: run '{}', block {}", run.name, record.block);
  const Next& next = next_[record.run][sequence(record, where)];
  expect(record.block == next.block && next.block < run.max_blocks(), where, "block", record.block,
         next.block);
  expect(record.start == next.token, where, "start", record.start, next.token);
  const bool prompt = record.block < run.n_prompt_blocks;
  const bool last_block = record.block + 1 == run.n_prompt_blocks;
  expect(record.prompt == prompt, where, "prompt", record.prompt, prompt);
  const std::int64_t limit = prompt ? plan_->n_prompt() : run.max_tokens(plan_->n_prompt());
  const std::int64_t n_seen = std::int64_t{record.start} + record.n_new;
  expect(record.n_new >= 1 && n_seen <= limit, where, "number of tokens seen", n_seen, limit);
  if (last_block) expect(n_seen == limit, where, "number of tokens seen", n_seen, limit);
  check_layers(record, last_block, where);
}

void BlockOrder::check_layers(const BlockRecord& record, bool last_block, const std::string& where) const {
  const bool one = plan_->by_layers() && record.prompt;
  const std::vector<int> expected = one ? std::vector<int>{record.layers.front().layer} : plan_->layers;
  expect_size(record.layers.size(), static_cast<std::int64_t>(expected.size()), where, "layers");
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expect(record.layers[i].layer == expected[i], where, "layer", record.layers[i].layer, expected[i]);
    check_layer(*plan_, record, record.layers[i], last_block,
                fmt::format("{}, layer {}", where, expected[i]));
  }
}

void BlockOrder::accept(const BlockRecord& record) {
  check(record);
  auto& run = next_[record.run];
  run[sequence(record, {})] = {record.block + std::int64_t{1}, std::int64_t{record.start} + record.n_new};
}

}  // namespace keyscope::recording
