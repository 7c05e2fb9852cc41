#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "analysis/policies/registry.hpp"
#include "analysis/splitmix.hpp"
#include "base/errors.hpp"
#include "capture/inference/capture.hpp"
#include "capture/inference/completion_tree.hpp"
#include "capture/inference/libtorch_engine.hpp"
#include "capture/inference/memory_need.hpp"
#include "capture/inference/run_state.hpp"
#include "capture/model/transformer.hpp"

namespace keyscope::capture {

namespace {

recording::RunPlan run_of(const CompletionSettings& settings, const CompletionRequest& request) {
  recording::RunPlan run;
  run.name = request.policy.name;
  run.budget = request.policy.name == "none" ? 0 : request.budget;
  run.block_size = settings.block_size;
  run.max_generated = request.continuation.max_new_tokens;
  return run;
}

void check_prompt(const ModelConfig& config, const CompletionRequest& request, const std::string& where) {
  const std::int64_t n = std::ssize(request.prompt_ids), n_new = request.continuation.max_new_tokens;
  check_prompt_ids(config, request.prompt_ids, where + ": ");
  if (const std::int64_t all = n + std::max<std::int64_t>(0, n_new - 1); all > config.context_length)
    throw InvalidInput(
        fmt::format("{}: the prompt has {} tokens, {} generated ones follow, and the model's context is {}",
                    where, n, all - n, config.context_length));
}

void check_request(const Model& model, const CompletionRequest& request, const std::string& where) {
  analysis::make_policy(request.policy, 0);  // throws where there is none such
  if (request.policy.name != "none" && request.budget < 1)
    throw UsageError(fmt::format("{}: policy {} needs a budget of at least 1 row per KV head", where,
                                 request.policy.name));
  const Continuation& continuation = request.continuation;
  if (continuation.max_new_tokens < 0)
    throw UsageError(
        fmt::format("{}: {} new tokens; expected 0 or more", where, continuation.max_new_tokens));
  check_sampling(continuation.sampling);
  if (!continuation.stop_texts.empty() && model.tokenizer() == nullptr)
    throw UsageError(where + ": stop texts need a tokenizer, and the model's folder has no tokenizer.json");
  if (std::ranges::count(continuation.stop_texts, "") > 0)
    throw UsageError(where + ": a stop text is empty; expected at least one character");
  if (request.score_from && *request.score_from < 1)
    throw UsageError(
        fmt::format("{}: scores from position {}; expected 1 or more, since nothing comes "
                    "before the first token",
                    where, *request.score_from));
  for (const std::int32_t id : continuation.end_ids)
    if (id < 0 || id >= model.config().vocab_size)
      throw UsageError(fmt::format("{}: the end id {}; expected one of the vocabulary's, 0 to {}", where, id,
                                   model.config().vocab_size - 1));
  check_prompt(model.config(), request, where);
}

// Each run by itself, whose refusal can say what would fit, then all that are alive at once.
//   returns how many may generate together
std::size_t require_memory(const Model& model, const CompletionSettings& settings,
                           std::span<const CompletionRequest> requests, const CompletionTree& tree) {
  const Transformer& transformer = model.transformer();
  const std::int64_t element_bytes = model.element_bytes();
  const std::int64_t available = model.available_memory();
  std::int64_t block_bytes = 0;
  for (const CompletionRequest& request : requests) {
    const MemoryNeed need =
        check_memory(model.config(), run_of(settings, request), std::ssize(request.prompt_ids), element_bytes,
                     transformer.arithmetic(), available);
    block_bytes = std::max(block_bytes, need.block_bytes);
  }
  const auto needed = [&](std::size_t together) {
    return completion_memory(model.config(), settings.block_size, tree, element_bytes,
                             transformer.arithmetic(), together);
  };
  for (std::size_t together = most_together(transformer); together > 1; --together)
    if (needed(together).cache_bytes + block_bytes <= available) return together;
  check_completion_memory(needed(1), block_bytes, available);
  return 1;
}

}  // namespace

CompletionCost LibTorchEngine::complete_prompts(const Model& model, const CompletionSettings& settings,
                                                std::span<const CompletionRequest> requests,
                                                const CompletionWatch& watch) const {
  const c10::InferenceMode inference;
  at::set_num_threads(model.threads());
  if (settings.block_size < 1)
    throw UsageError(fmt::format("a block of {} tokens; expected at least 1", settings.block_size));
  for (std::size_t i = 0; i < requests.size(); ++i)
    check_request(model, requests[i], fmt::format("request {}", i));
  const CompletionTree tree(model.config(), settings, requests);
  CompletionRun run(model, settings, requests, watch, require_memory(model, settings, requests, tree));
  const auto started = std::chrono::steady_clock::now();
  tree.walk(run);
  CompletionCost cost = run.cost();
  cost.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return cost;
}

std::string added_text(const Model& model, std::int32_t before, std::int32_t id) {
  const tokenizer::Tokenizer* tokenizer = model.tokenizer();
  return tokenizer == nullptr ? std::string() : tokenizer->token_text(std::array{before, id}).token(1);
}

namespace {

// Cuts the text where the first stop text begins; false where there is none. Only its end is new.
bool cut_at_stop(const Continuation& continuation, std::size_t n_new, std::string& text) {
  const std::size_t words = continuation.stop_after_words ? text.find_first_not_of(" \t\r\n") : 0;
  if (words == std::string::npos) return false;
  std::size_t first = std::string::npos;
  for (const std::string& stop : continuation.stop_texts) {
    const std::size_t old = text.size() - n_new;
    first = std::min(first, text.find(stop, std::max(words, old - std::min(old, stop.size()))));
  }
  if (first == std::string::npos) return false;
  text.resize(first);
  return true;
}

// Ids after which nothing follows.
std::vector<std::int32_t> ending_ids(const Model& model, const Continuation& continuation) {
  std::vector<std::int32_t> ids = continuation.end_ids;
  const auto& eos = model.config().eos_token_ids;
  if (!continuation.ignore_eos) ids.insert(ids.end(), eos.begin(), eos.end());
  return ids;
}

}  // namespace

GrowingText::GrowingText(const Model& model, const Continuation& continuation, std::int32_t last_prompt_id)
    : model_(model),
      continuation_(continuation),
      endings_(ending_ids(model, continuation)),
      before_(last_prompt_id),
      ended_(continuation.max_new_tokens < 1) {
  completion_.end = CompletionEnd::kMaxNewTokens;
}

void GrowingText::take(std::vector<float> logits) {
  if (continuation_.never_empty && completion_.generated.empty())
    for (const std::int32_t id : endings_)
      if (static_cast<std::size_t>(id) < logits.size())  // a configuration may name ids that are not there
        logits[id] = std::numeric_limits<float>::lowest();
  const std::int32_t id = choose_token(logits, continuation_.sampling, std::ssize(completion_.generated));
  completion_.generated.push_back(id);
  ended_ = true;
  if (std::ranges::find(endings_, id) != endings_.end()) {
    completion_.end = CompletionEnd::kEndOfSequence;
    return;
  }
  const std::string added = added_text(model_, before_, id);
  completion_.text += added;
  if (cut_at_stop(continuation_, added.size(), completion_.text)) {
    completion_.end = CompletionEnd::kStopText;
    return;
  }
  before_ = id;
  ended_ = std::ssize(completion_.generated) >= continuation_.max_new_tokens;
}

namespace {

constexpr std::int64_t kLogitsAtOnce = std::int64_t{1} << 22;

// (n, vocab), row after row.
//   position_of: a row's, for the message
at::Tensor checked_logits(const Transformer& transformer, const at::Tensor& hidden,
                          const std::function<std::int64_t(std::int64_t row)>& position_of) {
  if (!transformer.weights().head().defined())
    throw InvalidInput(
        "the model was saved without its head (there is no lm_head.weight): it gives no next token");
  at::Tensor logits = transformer.logits(hidden).contiguous();
  const std::span<const float> all(logits.const_data_ptr<float>(), logits.numel());
  const auto bad = std::ranges::find_if_not(all, [](float logit) { return std::isfinite(logit); });
  if (bad != all.end())
    throw InvalidInput(
        fmt::format("the logits of position {} hold NaN or Inf; are the weights damaged, or too large for "
                    "this --dtype?",
                    position_of((bad - all.begin()) / logits.size(1))));
  return logits;
}

double log_probability(std::span<const float> logits, std::int32_t id) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return logits[id] - largest - std::log(sum);
}

}  // namespace

std::vector<float> finite_logits(const Transformer& transformer, const at::Tensor& hidden,
                                 std::int64_t first) {
  const at::Tensor logits =
      checked_logits(transformer, hidden, [&](std::int64_t row) { return first + row; });
  const float* data = logits.const_data_ptr<float>();
  return {data, data + logits.numel()};
}

std::vector<std::vector<float>> finite_logits(const Transformer& transformer, const at::Tensor& hidden,
                                              std::span<const std::int64_t> positions) {
  const at::Tensor logits =
      checked_logits(transformer, hidden, [&](std::int64_t row) { return positions[row]; });
  std::vector<std::vector<float>> rows;
  const float* data = logits.const_data_ptr<float>();
  for (std::int64_t row = 0; row < logits.size(0); ++row, data += logits.size(1))
    rows.emplace_back(data, data + logits.size(1));
  return rows;
}

std::vector<double> log_probabilities(const Transformer& transformer, const at::Tensor& hidden,
                                      std::span<const std::int32_t> next_ids, std::int64_t first) {
  const std::int64_t vocab = transformer.config().vocab_size;
  const std::int64_t step = std::max<std::int64_t>(1, kLogitsAtOnce / vocab), n = std::ssize(next_ids);
  std::vector<double> scores;
  for (std::int64_t row = 0; row < n; row += step) {
    const std::int64_t count = std::min(step, n - row);
    const at::Tensor logits = checked_logits(transformer, hidden.narrow(0, row, count),
                                             [&](std::int64_t i) { return first + row + i; });
    const float* data = logits.const_data_ptr<float>();
    for (std::int64_t i = 0; i < count; ++i)
      scores.push_back(
          log_probability({data + i * vocab, static_cast<std::size_t>(vocab)}, next_ids[row + i]));
  }
  return scores;
}

std::vector<std::int64_t> StateRule::layer_budgets(const ModelConfig& config, int layer) const {
  const auto n = static_cast<std::size_t>(config.heads(layer).n_kv_heads);
  if (budgets.empty()) return std::vector<std::int64_t>(n, budget);
  const auto own = budgets.subspan(static_cast<std::size_t>(config.n_kv_heads) * layer, n);
  return {own.begin(), own.end()};
}

std::vector<std::int64_t> cache_rows(const ModelConfig& config, std::int64_t block_size,
                                     const StateRule& rule, int layer) {
  std::vector<std::int64_t> budgets;
  if (rule.policy != nullptr && rule.policy->evicts(layer)) budgets = rule.layer_budgets(config, layer);
  for (std::int64_t& rows : budgets) rows = rule.policy->slots().most_rows(rows);
  const bool dealt = !budgets.empty() && rule.policy->slots().deals_by_block();
  return cache_rows(config, layer, std::min(block_size, rule.most_tokens), rule.most_tokens, budgets, dealt);
}

RunState::RunState(const Model& model, const CompletionSettings& settings)
    : model_(model), settings_(settings) {}

RunState::RunState(const Model& model, const CompletionSettings& settings, const StateRule& rule)
    : RunState(model, settings) {
  for (int layer = 0; layer < model.config().n_layers; ++layer)
    layers_.push_back(
        std::make_unique<LayerRun>(model.transformer(), layer_plan(layer, rule), lender_of(*this, layer)));
}

// The same state in the layer whose keys another borrows; null where it has its own.
const LayerRun* RunState::lender_of(const RunState& state, int layer) {
  const ModelConfig& config = state.model_.config();
  return config.borrows(layer) ? state.layers_[config.lender(layer)].get() : nullptr;
}

std::unique_ptr<RunState> RunState::fork(const StateRule& rule) const {
  std::unique_ptr<RunState> forked(new RunState(model_, settings_));
  for (int layer = 0; layer < std::ssize(layers_); ++layer)
    forked->layers_.push_back(layers_[layer]->fork(layer_plan(layer, rule), lender_of(*forked, layer)));
  LayerRun::evict_together(forked->layers_);
  forked->position_ = position_;
  forked->last_hidden_ = last_hidden_;
  forked->sizes_ = sizes_;
  forked->note_size();
  return forked;
}

void RunState::follow(const StateRule& rule) {
  for (std::size_t layer = 0; layer < layers_.size(); ++layer)
    layers_[layer]->follow(eviction(static_cast<int>(layer), rule), rule.counts);
  LayerRun::evict_together(layers_);
  note_size();
}

EvictionRule RunState::eviction(int layer, const StateRule& rule) const {
  return {rule.policy, rule.layer_budgets(model_.config(), layer), layer, rule.budget};
}

LayerPlan RunState::layer_plan(int layer, const StateRule& rule) const {
  LayerPlan plan;
  plan.layer = layer;
  plan.block_size = settings_.block_size;
  plan.eviction = eviction(layer, rule);
  plan.capacities = cache_rows(model_.config(), settings_.block_size, rule, layer);
  plan.cache_format = settings_.cache_format;
  plan.counts = rule.counts;
  plan.watched = rule.watched;
  plan.recording.layer = false;
  return plan;
}

at::Tensor RunState::run_block(std::span<const std::int32_t> ids, std::span<const StateRule> open) {
  leave_open(open);
  RunState* const self = this;
  at::Tensor hidden = run({&self, 1}, ids, std::ssize(ids));
  last_hidden_ = hidden.narrow(0, hidden.size(0) - 1, 1).clone();
  if (open.empty()) LayerRun::evict_together(layers_);
  note_size();
  return hidden;
}

void RunState::run_tokens(std::span<RunState* const> states, std::span<const std::int32_t> ids) {
  for (RunState* const state : states) state->end_prompt();
  const at::Tensor hidden = run(states, ids, 1);
  for (std::size_t i = 0; i < states.size(); ++i) {
    states[i]->last_hidden_ = hidden.narrow(0, static_cast<std::int64_t>(i), 1).clone();
    LayerRun::evict_together(states[i]->layers_);
    states[i]->note_size();
  }
}

// Once: what comes after is generated.
void RunState::end_prompt() {
  if (prompt_ended_) return;
  prompt_ended_ = true;
  for (const auto& layer : layers_) layer->end_prompt(position_);
}

at::Tensor RunState::run(std::span<RunState* const> states, std::span<const std::int32_t> ids,
                         std::int64_t n) {
  const LayerRun::BeforeBlock before = [] {};
  const LayerRun::AfterBlock after = [](std::int64_t, const recording::LayerBlock&) {};
  const Model& model = states.front()->model_;
  const Transformer& transformer = model.transformer();
  at::Tensor hidden = transformer.embed(ids);
  for (int layer = 0; layer < model.config().n_layers; ++layer) {
    const auto weights = transformer.weights().layer(layer);
    transformer.weights().prefetch(layer + 1);
    hidden = transformer.at_layer(layer, hidden);
    std::vector<LayerRun::Part> parts;
    std::span<const std::int32_t> left = ids;
    for (RunState* const state : states) {
      parts.push_back({*state->layers_[layer], {left.first(n), state->position_}, before, after});
      left = left.subspan(n);
    }
    LayerRun::run(*weights, hidden, parts);
    transformer.weights().release(layer);
  }
  for (RunState* const state : states) {
    for (const auto& layer : state->layers_) layer->check();
    state->position_ += n;
  }
  return hidden;
}

void RunState::leave_open(std::span<const StateRule> rules) {
  if (rules.empty()) return;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    std::vector<EvictionRule> evictions;
    for (const StateRule& rule : rules) evictions.push_back(eviction(static_cast<int>(layer), rule));
    layers_[layer]->leave_open(std::move(evictions));
  }
}

// Once per block: where it was left open what goes after it, again once that is known.
void RunState::note_size() {
  if (position_ == 0) return;
  CacheSize size{position_, mean_rows()};
  for (const auto& layer : layers_) size.bytes += layer->stored_bytes();
  if (!sizes_.empty() && sizes_.back().n_read == position_) sizes_.pop_back();
  sizes_.push_back(size);
}

std::vector<LostRow> RunState::lost() const {
  std::vector<LostRow> all;
  for (const auto& layer : layers_) all.insert(all.end(), layer->lost().begin(), layer->lost().end());
  return all;
}

double RunState::mean_rows() const {
  double rows = 0, n_heads = 0;
  for (const auto& layer : layers_)
    for (int head = 0; head < layer->cache().n_heads(); ++head) {
      rows += static_cast<double>(layer->cache().n_rows(head));
      n_heads += 1;
    }
  return rows / n_heads;
}

}  // namespace keyscope::capture
