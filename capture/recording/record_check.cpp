#include "capture/recording/record_check.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "analysis/errors.hpp"

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

void check_layer(const RecordPlan& plan, const BlockRecord& record, const LayerBlock& layer, bool last_block,
                 const std::string& where) {
  const ModelInfo& model = plan.model;
  const std::int64_t row_values = std::int64_t{record.n_new} * model.head_dim;
  const std::int64_t n_seen = std::int64_t{record.start} + record.n_new;
  expect_size(layer.keys.size(), plan.keys ? model.n_kv_heads * row_values : 0, where, "key values");
  expect_size(layer.queries.size(), plan.queries ? model.n_heads * row_values : 0, where, "query values");
  expect_size(layer.values.size(), plan.values ? model.n_kv_heads * row_values : 0, where, "value values");
  expect_size(layer.attention_rows.size(), plan.attention ? model.n_heads * record.n_new * n_seen : 0, where,
              "attention weights");
  if (!layer.evictions.empty())
    expect_size(layer.evictions.size(), model.n_kv_heads, where, "heads with evictions");
  if (!layer.attention.empty())
    expect_size(layer.attention.size(), model.n_kv_heads, where, "heads with attention");
  for (const auto& head : layer.evictions) check_evictions(head, n_seen, where);
  for (const auto& head : layer.attention) check_attention(head, n_seen, last_block, where);
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
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    if (plan.layers[i] < (i == 0 ? 0 : plan.layers[i - 1] + 1) || plan.layers[i] >= model.n_layers)
      throw InvalidInput(fmt::format("recording plan: layers must ascend below {}", model.n_layers));
  }
  std::set<std::string> names;
  for (const RunPlan& run : plan.runs) {
    check_run(plan, run);
    if (!names.insert(run.name).second)
      throw InvalidInput(fmt::format("recording plan: two runs '{}'", run.name));
  }
}

void check_block(const RecordPlan& plan, const BlockRecord& record, std::int64_t next_block,
                 std::int64_t next_token) {
  if (record.run < 0 || static_cast<std::size_t>(record.run) >= plan.runs.size())
    throw InvalidInput(fmt::format("recording: there is no run {}", record.run));
  const RunPlan& run = plan.runs[static_cast<std::size_t>(record.run)];
  const std::string where = fmt::format("recording: run '{}', block {}", run.name, record.block);
  expect(record.block == next_block && next_block < run.max_blocks(), where, "block", record.block,
         next_block);
  expect(record.start == next_token, where, "start", record.start, next_token);
  const bool prompt = record.block < run.n_prompt_blocks;
  const bool last_block = record.block + 1 == run.n_prompt_blocks;
  expect(record.prompt == prompt, where, "prompt", record.prompt, prompt);
  const std::int64_t limit = prompt ? plan.n_prompt() : run.max_tokens(plan.n_prompt());
  const std::int64_t n_seen = std::int64_t{record.start} + record.n_new;
  expect(record.n_new >= 1 && n_seen <= limit, where, "number of tokens seen", n_seen, limit);
  if (last_block) expect(n_seen == limit, where, "number of tokens seen", n_seen, limit);
  expect_size(record.layers.size(), static_cast<std::int64_t>(plan.layers.size()), where, "layers");
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    expect(record.layers[i].layer == plan.layers[i], where, "layer", record.layers[i].layer, plan.layers[i]);
    check_layer(plan, record, record.layers[i], last_block,
                fmt::format("{}, layer {}", where, plan.layers[i]));
  }
}

}  // namespace keyscope::recording
