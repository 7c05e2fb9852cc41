#include "capture/inference/memory_need.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>

#include <ATen/Parallel.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/slots.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"
#include "capture/inference/aten_attention.hpp"
#include "capture/inference/capture.hpp"
#include "capture/inference/libtorch_engine.hpp"
#include "capture/inference/policy_run.hpp"
#include "capture/model/products.hpp"
#include "capture/model/transformer.hpp"

namespace keyscope::capture {

namespace {

std::int64_t block_tokens(const recording::RunPlan& run, std::int64_t n_prompt) {
  return std::min(run.block_size, n_prompt);
}

// One row in one layer and KV head: key, value, position, and the attention it has received.
std::int64_t row_bytes(const ModelConfig& config, int layer, std::int64_t element_bytes) {
  constexpr std::int64_t kBookkeeping = sizeof(std::int32_t) + sizeof(double) + sizeof(std::int32_t);
  return std::int64_t{2} * config.heads(layer).head_dim * element_bytes + kBookkeeping;
}

// A row in every KV head of every layer.
std::int64_t token_bytes(const ModelConfig& config, std::int64_t element_bytes) {
  std::int64_t bytes = 0;
  for (int layer = 0; layer < config.n_layers; ++layer)
    bytes += row_bytes(config, layer, element_bytes) * config.heads(layer).n_kv_heads;
  return bytes;
}

// Whether only one layer's cache is in memory at once: under the layer schedule, unless tokens are fed back
// after the prompt.
bool holds_one_layer(const recording::RecordPlan& plan, const recording::RunPlan& run) {
  return plan.by_layers() && run.max_generated <= 1;
}

struct CacheBytes {
  double all_layers = 0, largest_layer = 0;
};

// In float64: without overflow, whatever a damaged configuration asks for.
CacheBytes cache_bytes(const ModelConfig& config, const recording::RunPlan& run, std::int64_t n_prompt,
                       std::int64_t element_bytes, Arithmetic arithmetic) {
  CacheBytes bytes;
  for (int layer = 0; layer < config.n_layers; ++layer) {
    const auto rows = cache_rows(config, run, n_prompt, layer, run.budget > 0);
    const double layer_bytes = layer_cache_bytes(config, layer, rows, element_bytes, arithmetic);
    bytes.all_layers += layer_bytes;
    bytes.largest_layer = std::max(bytes.largest_layer, layer_bytes);
  }
  return bytes;
}

// What lies between a feed-forward's products, in elements per token: of experts at worst one gets all
// tokens, whose hidden states are gathered, mixed and summed.
double feed_forward_width(const ModelConfig& config) {
  const ExpertsConfig& experts = config.experts;
  const std::int64_t widest =
      std::max({feed_forward_size(config), experts.intermediate_size, experts.shared_intermediate_size});
  const std::int64_t routed = experts.n > 0 ? experts.n * 2 + 4 * config.hidden_size : 0;
  return static_cast<double>(3 * widest + routed);
}

// Of n tokens: queries, keys and values several times over (rotated, as float32, copied into the record),
// what layers without keys mix, and the feed-forward.
double activation_bytes(const ModelConfig& config, double n) {
  const double projected = static_cast<double>(config.n_heads + 2 * config.n_kv_heads) * config.head_dim;
  return n * 4 *
         (4 * static_cast<double>(config.hidden_size) + feed_forward_width(config) + 4 * projected +
          4 * static_cast<double>(config.recurrent.n_channels()));
}

// Scores of a tile, and the few tensors of their size that statistics take, in float32, and what policies
// make of all keys in float64; the kernels' tiles are small.
double tile_bytes(const ModelConfig& config, double n_queries, std::int64_t n_rows, Arithmetic arithmetic) {
  if (arithmetic != Arithmetic::kAten) return 0;
  constexpr double kTensors = 5;
  const double scores = n_queries * config.n_heads * static_cast<double>(n_rows);
  const double keys = static_cast<double>(n_rows) * config.n_kv_heads * config.head_dim;
  return kTensors * 4 * std::min(scores, static_cast<double>(kAtenTileScores)) + 3 * 8 * keys;
}

// What is recorded of a block of n tokens, and what is held for all of them until the run's end.
double recorded_bytes(const ModelConfig& config, const recording::RecordPlan& plan,
                      const recording::RunPlan& run, std::int64_t element_bytes) {
  const auto n = static_cast<double>(block_tokens(run, plan.n_prompt()));
  const auto n_all = static_cast<double>(plan.n_prompt());
  const double n_layers = plan.by_layers() ? 1 : static_cast<double>(plan.layers.size());
  int most_heads = 0;
  double recorded = 0, largest = 0;
  for (const int layer : plan.layers) {
    const auto [n_all_kv_heads, head_dim] = config.heads(layer);
    const int n_kv_heads = plan.heads.count(n_all_kv_heads);
    const int n_heads = n_kv_heads * (config.n_heads / n_all_kv_heads);
    const double values = static_cast<double>(n_heads + 2 * n_kv_heads) * head_dim;
    recorded += values;
    largest = std::max(largest, values);
    most_heads = std::max(most_heads, n_heads);
  }
  double bytes = n * 4 * (plan.by_layers() ? largest : recorded);
  bytes += n * plan.experts_per_token * 8 * static_cast<double>(plan.expert_layers.size());
  // Attention received per query head, by position.
  bytes += n_all * config.n_heads * 8 * n_layers;
  if (plan.value_norms)
    bytes +=
        static_cast<double>(run.max_tokens(plan.n_prompt())) * config.n_kv_heads * sizeof(double) * n_layers;
  if (plan.attention)
    bytes += n * most_heads * static_cast<double>(run.max_tokens(plan.n_prompt())) * 4 * (n_layers + 2);
  if (plan.logits) bytes += 8 * static_cast<double>(plan.score_last) * static_cast<double>(plan.vocab_size);
  // Under the layer schedule every run's hidden states of the whole prompt lie in memory.
  if (plan.by_layers())
    bytes += n_all * static_cast<double>(config.hidden_size * element_bytes) *
             static_cast<double>(plan.runs.size());
  return bytes;
}

// What to do about it, as the caches' own share allows.
std::string advice(std::int64_t free_for_caches, std::int64_t bytes_per_row, const recording::RunPlan& run,
                   std::int64_t block) {
  const std::int64_t budget = free_for_caches / bytes_per_row - block;
  if (budget >= 1 && run.budget == 0)
    return fmt::format("a policy with --budget {} would fit, or a shorter prompt", budget);
  if (budget >= 1 && budget < run.budget) return fmt::format("--budget {} would fit", budget);
  return "take a smaller --block, fewer --layers, or do not --record attention";
}

//   n_layers: whose caches are in memory at once
void require_fit(const ModelConfig& config, const recording::RunPlan& run, std::int64_t n_prompt,
                 const MemoryNeed& need, std::int64_t element_bytes, int n_layers, std::int64_t available,
                 const char* or_else = "") {
  if (need.cache_bytes + need.block_bytes <= available) return;
  throw Error(fmt::format(
      "run {}: its KV cache needs {} and a block {} of memory, and {} are available; {}{}", run.name,
      gib_text(need.cache_bytes), gib_text(need.block_bytes), gib_text(available),
      advice(available - need.block_bytes, token_bytes(config, element_bytes) * n_layers / config.n_layers,
             run, block_tokens(run, n_prompt)),
      or_else));
}

}  // namespace

std::vector<std::int64_t> cache_rows(const ModelConfig& config, int layer, std::int64_t block,
                                     std::int64_t n_tokens, const std::vector<std::int64_t>& budgets,
                                     bool dealt) {
  if (!config.attends(layer)) return {};
  std::int64_t most = n_tokens;
  if (config.window(layer) > 0 && !dealt) most = std::min(most, config.window(layer) + block);
  std::vector<std::int64_t> rows(config.heads(layer).n_kv_heads, most);
  for (std::size_t head = 0; head < budgets.size(); ++head) {
    const std::int64_t slack = dealt ? budgets[head] / 2 + block : 0;  // see LayerRun::give_up_room
    if (budgets[head] < most) rows[head] = std::min(most, budgets[head] + block + slack);
  }
  return rows;
}

std::vector<std::int64_t> cache_rows(const ModelConfig& config, const recording::RunPlan& run,
                                     std::int64_t n_prompt, int layer, bool evicts) {
  std::vector<std::int64_t> budgets;
  if (evicts && !run.oracle) budgets = run.layer_budgets(layer, config);
  const analysis::Slots slots = analysis::read_slots({run.policy, recording::policy_options(run)});
  for (std::int64_t& rows : budgets) rows = slots.most_rows(rows);
  return cache_rows(config, layer, block_tokens(run, n_prompt), run.max_tokens(n_prompt), budgets,
                    !budgets.empty() && slots.deals_by_block());
}

double layer_cache_bytes(const ModelConfig& config, int layer, const std::vector<std::int64_t>& rows,
                         std::int64_t element_bytes, Arithmetic arithmetic) {
  if (rows.empty()) {
    const RecurrentConfig& recurrent = config.recurrent;
    return static_cast<double>(recurrent.state_size()) * sizeof(float) +
           static_cast<double>(recurrent.n_channels()) * recurrent.kernel *
               static_cast<double>(element_bytes);
  }
  const double n_rows = arithmetic == Arithmetic::kAten
                            ? static_cast<double>(std::ranges::max(rows)) * static_cast<double>(rows.size())
                            : std::accumulate(rows.begin(), rows.end(), 0.0);
  return n_rows * static_cast<double>(row_bytes(config, layer, element_bytes));
}

namespace {

// Moments of every query head's queries, what values weigh, and on a device the tables of weights that a
// policy looks at, of all heads at once, where its run looks at them.
double looked_at_bytes(const ModelConfig& config, const recording::RunPlan& run, std::int64_t n_prompt,
                       Arithmetic arithmetic) {
  if (run.policy.empty() || run.policy == "none" || run.policy == "python") return 0;
  const auto policy = analysis::make_policy({run.policy, recording::policy_options(run)}, 0);
  const analysis::PolicyNeeds needs = policy->needs();
  double bytes = needs.query_moments ? moment_bytes(config) : 0;
  std::int64_t most = 0;
  for (int layer = 0; layer < config.n_layers; ++layer)
    for (const std::int64_t rows : cache_rows(config, run, n_prompt, layer, true)) {
      if (policy->slots().weighs_values()) bytes += static_cast<double>(rows) * sizeof(double);
      most = std::max(most, rows);
    }
  constexpr double kTables = 6;  // of weights, products and what is made of them
  if (arithmetic == Arithmetic::kAten)
    bytes += kTables * sizeof(double) * config.n_heads *
             static_cast<double>(std::min(looked_at_queries(*policy), block_tokens(run, n_prompt)) * most);
  return bytes;
}

// Where ATen's heads share a layer's memory, a block brings them side by side, as long as the longest: keys
// and values for attention, and once more for the policy.
double side_by_side_bytes(const ModelConfig& config, const recording::RunPlan& run, std::int64_t n_prompt,
                          std::int64_t element_bytes, Arithmetic arithmetic) {
  const analysis::Slots slots = analysis::read_slots({run.policy, recording::policy_options(run)});
  if (arithmetic != Arithmetic::kAten || !slots.deals_among_heads()) return 0;
  const auto n_tokens = static_cast<double>(run.max_tokens(n_prompt));
  double most = 0;
  for (int layer = 0; layer < config.n_layers; ++layer) {
    const auto rows = cache_rows(config, run, n_prompt, layer, true);
    const double longest = std::min(n_tokens, std::accumulate(rows.begin(), rows.end(), 0.0));
    most = std::max(most, static_cast<double>(std::ssize(rows) * config.heads(layer).head_dim) * longest);
  }
  return 4 * static_cast<double>(element_bytes) * most;
}

// What a run holds beside its cache while a block goes through the model, but for what is recorded of it.
//   n_at_once: tokens whose activations there are
double passing_bytes(const ModelConfig& config, const recording::RunPlan& run, std::int64_t n_prompt,
                     std::int64_t element_bytes, Arithmetic arithmetic, double n_at_once) {
  return activation_bytes(config, n_at_once) + looked_at_bytes(config, run, n_prompt, arithmetic) +
         side_by_side_bytes(config, run, n_prompt, element_bytes, arithmetic) +
         tile_bytes(config, static_cast<double>(block_tokens(run, n_prompt)), run.max_tokens(n_prompt),
                    arithmetic);
}

}  // namespace

double moment_bytes(const ModelConfig& config) {
  double values = 0;
  for (int layer = 0; layer < config.n_layers; ++layer) {
    const double d = config.heads(layer).head_dim;
    values += config.attends(layer) ? config.n_heads * d * d : 0;
  }
  return values * sizeof(double);
}

MemoryNeed memory_need(const ModelConfig& config, const recording::RunPlan& run, std::int64_t n_prompt,
                       std::int64_t element_bytes, Arithmetic arithmetic) {
  const auto n = static_cast<double>(block_tokens(run, n_prompt));
  return {whole_bytes(cache_bytes(config, run, n_prompt, element_bytes, arithmetic).all_layers),
          whole_bytes(passing_bytes(config, run, n_prompt, element_bytes, arithmetic, n))};
}

MemoryNeed memory_need(const ModelConfig& config, const recording::RecordPlan& plan,
                       const recording::RunPlan& run, std::int64_t element_bytes, Arithmetic arithmetic) {
  const std::int64_t n_prompt = plan.n_prompt();
  const CacheBytes caches = cache_bytes(config, run, n_prompt, element_bytes, arithmetic);
  const auto n = static_cast<double>(block_tokens(run, n_prompt));
  const double at_once = plan.by_layers() ? std::min(static_cast<double>(n_prompt),
                                                     static_cast<double>(chunk_tokens(run.block_size)))
                                          : n;
  return {whole_bytes(holds_one_layer(plan, run) ? caches.largest_layer : caches.all_layers),
          whole_bytes(passing_bytes(config, run, n_prompt, element_bytes, arithmetic, at_once) +
                      recorded_bytes(config, plan, run, element_bytes))};
}

std::int64_t whole_bytes(double bytes) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max() / 4;  // some of them can be added
  return bytes < static_cast<double>(kMost) ? static_cast<std::int64_t>(bytes) : kMost;
}

MemoryNeed check_memory(const ModelConfig& config, const recording::RunPlan& run, std::int64_t n_prompt,
                        std::int64_t element_bytes, Arithmetic arithmetic, std::int64_t available) {
  const MemoryNeed need = memory_need(config, run, n_prompt, element_bytes, arithmetic);
  require_fit(config, run, n_prompt, need, element_bytes, config.n_layers, available);
  return need;
}

void check_memory(const ModelConfig& config, const recording::RecordPlan& plan, std::int64_t element_bytes,
                  Arithmetic arithmetic, std::int64_t available) {
  std::int64_t others = 0;  // what the caches of the runs before take, while all are there
  for (const recording::RunPlan& run : plan.runs) {
    const MemoryNeed need = memory_need(config, plan, run, element_bytes, arithmetic);
    const int n_layers = holds_one_layer(plan, run) ? 1 : config.n_layers;
    require_fit(config, run, plan.n_prompt(), need, element_bytes, n_layers, available - others,
                others > 0 ? ", or --schedule block: one run after another" : "");
    if (plan.together())
      others = whole_bytes(static_cast<double>(others) + static_cast<double>(need.cache_bytes));
  }
}

// What a capture will cost.

namespace {

// Multiply-adds per second of a product as a block makes them, measured for a few hundredths of a second.
double measured_rate(const Model& model, std::int64_t block) {
  const c10::InferenceMode inference;
  at::set_num_threads(model.threads());
  const ModelConfig& config = model.config();
  const std::int64_t rows = std::min<std::int64_t>(block, 256);
  const Transformer& transformer = model.transformer();
  const at::TensorOptions options = transformer.options();
  const at::Tensor x = at::rand({rows, config.hidden_size}, options);
  const std::int64_t width = feed_forward_size(config);
  const at::Tensor w = at::rand({width, config.hidden_size}, options);
  const auto multiply = [&] { return x.is_cpu() ? linear(x, w, at::Tensor{}) : at::linear(x, w); };
  multiply();
  transformer.wait();
  using Clock = std::chrono::steady_clock;
  const auto started = Clock::now();
  std::int64_t n_products = 0;
  double elapsed = 0;
  while (elapsed < 0.02) {
    multiply();
    transformer.wait();
    ++n_products;
    elapsed = std::chrono::duration<double>(Clock::now() - started).count();
  }
  return static_cast<double>(n_products * rows * config.hidden_size * width) / elapsed;
}

// In float64: exact as far as any disk reaches, and without overflow beyond.
double disk_bytes(const recording::RecordPlan& plan) {
  const recording::ModelInfo& model = plan.model;
  const double width = plan.store == recording::StoreType::kFloat16 ? 2 : 4;
  constexpr double kStatisticsBytes = 4 + 4 + 8 + 4 + 4 + 24;  // per token and KV head, with the journal
  double bytes = 0;
  for (const auto& run : plan.runs) {
    const auto n_tokens = static_cast<double>(run.max_tokens(plan.n_prompt()));
    for (const int layer : plan.layers) {
      if (!plan.has_keys(layer)) continue;
      const auto [n_kv_heads, head_dim] = model.heads(layer);
      const double of_keys = plan.holder(layer) == layer ? plan.n_row_kv_heads(layer) : 0;
      const double rows = (plan.keys ? of_keys : 0) + (plan.queries ? plan.n_row_heads(layer) : 0) +
                          (plan.values ? of_keys : 0);
      const double of_token = kStatisticsBytes + (plan.has_value_norms(layer) ? 4 : 0);
      bytes += n_tokens * (rows * head_dim * width + n_kv_heads * of_token);
      if (plan.attention) bytes += plan.n_row_heads(layer) * n_tokens * n_tokens * width;
      if (plan.sinks) bytes += model.n_heads * (8 * static_cast<double>(run.n_prompt_blocks) + 4);
    }
    bytes += n_tokens * (8 * plan.experts_per_token + 4) * static_cast<double>(plan.expert_layers.size());
    if (plan.logits)
      bytes += 4.0 * static_cast<double>(std::min(plan.score_last, plan.n_prompt())) *
               static_cast<double>(plan.vocab_size);
  }
  return bytes;
}

// Of a token, in all layers: scores twice and values once, over half the rows while a cache fills. Rows are
// those of the budgets, whatever one head may come to hold beyond its own.
double attention_products(const ModelConfig& config, const recording::RunPlan& run, std::int64_t n_prompt) {
  double products = 0;
  for (int layer = 0; layer < config.n_layers; ++layer) {
    const bool evicts = run.budget > 0 && !run.oracle;
    const auto rows = cache_rows(config, layer, block_tokens(run, n_prompt), run.max_tokens(n_prompt),
                                 evicts ? run.layer_budgets(layer, config) : std::vector<std::int64_t>());
    if (rows.empty()) continue;
    const double mean = std::accumulate(rows.begin(), rows.end(), 0.0) / static_cast<double>(rows.size());
    products += 3 * mean * config.n_heads * config.heads(layer).head_dim * (evicts ? 1.0 : 0.5);
  }
  return products;
}

}  // namespace

CaptureEstimate LibTorchEngine::estimate_capture(const Model& model,
                                                 const recording::RecordPlan& plan) const {
  const ModelConfig& config = model.config();
  const Arithmetic arithmetic = model.transformer().arithmetic();
  CaptureEstimate estimate;
  estimate.disk_bytes = whole_bytes(disk_bytes(plan));
  estimate.weight_bytes = model.weight_bytes();
  const double products_of_token = token_products(config);
  double products = 0;
  for (const auto& run : plan.runs) {
    const std::int64_t n_tokens = run.max_tokens(plan.n_prompt());
    const std::int64_t caches = memory_need(config, plan, run, model.element_bytes(), arithmetic).cache_bytes;
    estimate.cache_bytes =
        plan.together() ? whole_bytes(static_cast<double>(estimate.cache_bytes) + static_cast<double>(caches))
                        : std::max(estimate.cache_bytes, caches);
    products += static_cast<double>(n_tokens) *
                (products_of_token + attention_products(config, run, plan.n_prompt()));
  }
  constexpr double kDiskBytesPerSecond = 500e6;
  estimate.seconds = products / measured_rate(model, plan.runs.front().block_size) +
                     static_cast<double>(estimate.disk_bytes) / kDiskBytesPerSecond;
  return estimate;
}

}  // namespace keyscope::capture
