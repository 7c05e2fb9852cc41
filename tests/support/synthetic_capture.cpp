#include "tests/support/synthetic_capture.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace keyscope::recording {
namespace {

// A number in [-1, 1) that is exact in half precision, from a place (splitmix64's finaliser).
float number(std::initializer_list<std::int64_t> place) {
  std::uint64_t h = 0x9E3779B97F4A7C15u;
  for (const std::int64_t p : place) {
    h ^= static_cast<std::uint64_t>(p) + 0x9E3779B97F4A7C15u + (h << 6) + (h >> 2);
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9u;
    h = (h ^ (h >> 27)) * 0x94D049BB133111EBu;
    h ^= h >> 31;
  }
  return static_cast<float>(static_cast<std::int64_t>(h % 1024) - 512) / 512.0f;
}

TokenText make_text(std::int64_t n, std::int32_t first_id) {
  TokenText text;
  text.offset.push_back(0);
  for (std::int64_t i = 0; i < n; ++i) {
    text.id.push_back(first_id + static_cast<std::int32_t>(i));
    // Some tokens add nothing, one is half of a UTF-8 letter.
    text.text += i % 7 == 3 ? "" : i == 5 ? "\xC3" : fmt::format(" w{}", i);
    text.offset.push_back(static_cast<std::int64_t>(text.text.size()));
  }
  return text;
}

std::vector<float> rows(std::int64_t kind, int run, int layer, const std::vector<int>& heads, int head_dim,
                        std::int32_t start, std::int32_t n_new) {
  std::vector<float> values;
  for (const int h : heads)
    for (std::int32_t i = start; i < start + n_new; ++i)
      for (int d = 0; d < head_dim; ++d) values.push_back(number({kind, run, layer, h, i, d}));
  return values;
}

}  // namespace

SyntheticOptions sinks_and_experts() {
  SyntheticOptions options;
  options.layers = {0, 1, 2};
  options.keyless = {1};
  options.experts = {1, 2};
  options.sinks = options.value_norms = true;
  return options;
}

SyntheticCapture::SyntheticCapture(const SyntheticOptions& options) : options_(options) {
  auto plan = std::make_shared<RecordPlan>();
  plan->provenance = {"keyscope capture --out 'x y.h5'",
                      R"({"block": 8})",
                      "keyscope 0",
                      "ab",
                      "cd",
                      7,
                      "cpu",
                      "block",
                      "2024-01-02T03:04:05Z"};
  plan->model = {R"({"model_type": "llama", "name": "Ünï"})",
                 "synthetic",
                 options.n_layers,
                 options.n_heads,
                 options.n_kv_heads,
                 options.head_dim};
  plan->prompt = make_text(options.n_prompt, 100);
  plan->layers = options.layers;
  plan->heads.kv_heads = options.heads;
  plan->values = options.values;
  plan->value_norms = options.value_norms;
  plan->attention = options.attention;
  plan->logits = options.logits;
  plan->score_last = 5;
  plan->vocab_size = 40;
  plan->store = options.store;
  plan->compress = options.compress;
  plan->sinks = options.sinks;
  plan->keyless_layers = options.keyless;
  plan->expert_layers = options.experts;
  if (!options.experts.empty()) plan->n_experts = 8, plan->experts_per_token = 2;
  RunPlan none{"none", "none", "{}", 0, options.block_size, 0, options.max_generated, false};
  none.n_prompt_blocks = (options.n_prompt + options.block_size - 1) / options.block_size;
  RunPlan keydiff = none;
  keydiff.name = keydiff.policy = "keydiff";
  keydiff.parameters = R"({"anchor": "mean"})";
  keydiff.budget = options.budget;
  plan->runs = {none, keydiff};
  plan_ = plan;
}

std::int64_t SyntheticCapture::n_blocks(int run) const {
  return plan_->runs[run].n_prompt_blocks + std::max<std::int64_t>(n_generated(run) - 1, 0);
}

std::int32_t SyntheticCapture::block_start(int block) const {
  const auto n_prompt_blocks = static_cast<int>(plan_->runs[0].n_prompt_blocks);
  const auto n_prompt = static_cast<std::int32_t>(options_.n_prompt);
  return block < n_prompt_blocks ? block * static_cast<std::int32_t>(options_.block_size)
                                 : n_prompt + block - n_prompt_blocks;
}

std::vector<std::int32_t> SyntheticCapture::evicted(int run, int block, int layer, int kv_head) const {
  if (run == 0) return {};
  std::vector<std::int32_t> rows = present(run, block, layer, kv_head);
  const auto score = [&](std::int32_t i) { return number({9, run, layer, kv_head, i, block}); };
  std::stable_sort(rows.begin(), rows.end(), [&](auto a, auto b) { return score(a) < score(b); });
  rows.resize(std::max<std::int64_t>(static_cast<std::int64_t>(rows.size()) - options_.budget, 0));
  std::sort(rows.begin(), rows.end());
  return rows;
}

// Rows that the block's queries see: those kept by earlier blocks, and its own.
std::vector<std::int32_t> SyntheticCapture::present(int run, int block, int layer, int kv_head) const {
  std::vector<std::int32_t> rows;
  for (int b = 0; b <= block; ++b) {
    for (std::int32_t i = block_start(b); i < block_start(b + 1); ++i) rows.push_back(i);
    if (run == 0 || b == block) continue;
    const auto score = [&](std::int32_t i) { return number({9, run, layer, kv_head, i, b}); };
    std::stable_sort(rows.begin(), rows.end(), [&](auto a, auto c) { return score(a) < score(c); });
    if (const auto n = static_cast<std::int64_t>(rows.size()) - options_.budget; n > 0)
      rows.erase(rows.begin(), rows.begin() + n);
    std::sort(rows.begin(), rows.end());
  }
  return rows;
}

LayerBlock SyntheticCapture::layer_block(int run, int block, int layer, std::int32_t start,
                                         std::int32_t n_new) const {
  const auto& options = options_;
  const auto n_prompt_blocks = plan_->runs[0].n_prompt_blocks;
  LayerBlock made;
  made.layer = layer;
  if (!plan_->has_keys(layer)) return made;
  for (int h = 0; options.sinks && h < options.n_heads; ++h) {
    if (block < n_prompt_blocks)
      made.attention_sink.push_back(number({10, run, layer, h, block}) + 1.0 / 3.0);
    if (block == 0) made.sink_logits.push_back(number({11, layer, h}));
  }
  const std::vector<int> kv_heads = plan_->heads.list(options.n_kv_heads);
  std::vector<int> heads;
  for (int h = 0; h < options.n_heads; ++h)
    if (plan_->heads.has(h / plan_->model.group_size(0))) heads.push_back(h);
  made.keys = rows(1, run, layer, kv_heads, options.head_dim, start, n_new);
  made.queries = rows(2, run, layer, heads, options.head_dim, start, n_new);
  if (options.values) made.values = rows(3, run, layer, kv_heads, options.head_dim, start, n_new);
  for (int h = 0; h < options.n_kv_heads && options.value_norms; ++h)
    for (std::int32_t i = start; i < start + n_new; ++i)
      made.value_norms.push_back(number({14, run, layer, h, i}) + 1);
  for (int h = 0; h < options.n_kv_heads; ++h) {
    HeadEvictions& head = made.evictions.emplace_back();
    head.position = evicted(run, block, layer, h);
    for (const auto i : head.position)
      head.margin.push_back(i % 5 == 0 ? std::numeric_limits<float>::quiet_NaN()
                                       : number({4, run, layer, h, i}));
    if (block >= n_prompt_blocks) continue;
    HeadAttention& attention = made.attention.emplace_back();
    attention.position = present(run, block, layer, h);
    for (const auto i : attention.position) {
      attention.received.push_back(number({5, run, layer, h, i, block}) + 1.0 / 3.0);
      attention.queries.push_back(start + n_new - std::max(i, start));
      if (block + 1 == n_prompt_blocks) attention.last.push_back(number({6, run, layer, h, i}));
    }
  }
  if (options.attention) {
    for (const int h : heads)
      for (std::int32_t q = start; q < start + n_new; ++q)
        for (std::int32_t k = 0; k < start + n_new; ++k)
          made.attention_rows.push_back(k > q ? 0 : number({7, run, layer, h, q, k}));
  }
  return made;
}

std::shared_ptr<const BlockRecord> SyntheticCapture::block(int run, int block) const {
  auto record = std::make_shared<BlockRecord>();
  const RunPlan& about = plan_->runs[run];
  record->run = run;
  record->block = block;
  record->prompt = block < about.n_prompt_blocks;
  record->start = block_start(block);
  const auto end = block + 1 == about.n_prompt_blocks ? static_cast<std::int32_t>(options_.n_prompt)
                                                      : block_start(block + 1);
  record->n_new = end - record->start;
  record->elapsed_ms =
      block == 1 ? std::numeric_limits<float>::quiet_NaN() : 1.5f * static_cast<float>(block);
  for (const int layer : options_.layers)
    record->layers.push_back(layer_block(run, block, layer, record->start, record->n_new));
  const std::int64_t next = block + 1 - about.n_prompt_blocks;
  if (options_.next_ids && next >= 0 && next < n_generated(run)) {
    const TokenText text = generated(run);
    record->next_id = text.id[next];
    record->next_text = text.token(next);
  }
  return record;
}

std::shared_ptr<const RoutingRecord> SyntheticCapture::routing(int run, int block, int layer) const {
  const auto about = this->block(run, block);
  auto record = std::make_shared<RoutingRecord>();
  record->run = run;
  record->layer = layer;
  record->first = about->start;
  for (std::int32_t i = about->start; i < about->start + about->n_new; ++i) {
    const auto first = static_cast<std::int32_t>(512 * (number({12, run, layer, i}) + 1)) % 8;
    record->experts.insert(record->experts.end(), {first, (first + 3) % 8});
    record->weights.insert(record->weights.end(), {0.75F, 0.25F});
    record->entropy.push_back(number({13, run, layer, i}) + 1);
  }
  return record;
}

PromptResult SyntheticCapture::prompt_result(int run) const {
  PromptResult result;
  result.run = run;
  for (int i = 0; i < 10; ++i) {
    result.top_logits.push_back(10.0f - static_cast<float>(i));
    result.top_ids.push_back(3 * i + run);
  }
  if (options_.logits)
    for (std::int64_t i = 0; i < 5 * plan_->vocab_size; ++i) result.logits.push_back(number({8, run, i}));
  return result;
}

TokenText SyntheticCapture::generated(int run) const { return make_text(n_generated(run), 300 + run); }

void SyntheticCapture::send(RecordSink& sink, std::int64_t n_blocks_to_send) const {
  std::int64_t left = n_blocks_to_send < 0 ? std::numeric_limits<std::int64_t>::max() : n_blocks_to_send;
  sink.begin(plan_);
  for (int run = 0; run < static_cast<int>(plan_->runs.size()); ++run) {
    for (int b = 0; b < n_blocks(run); ++b) {
      if (left-- <= 0) return;
      for (const int layer : options_.experts) sink.routing(routing(run, b, layer));
      sink.block(block(run, b));
      if (b + 1 == plan_->runs[run].n_prompt_blocks) sink.prompt_done(prompt_result(run));
    }
    sink.run_done(run, generated(run));
  }
}

}  // namespace keyscope::recording
