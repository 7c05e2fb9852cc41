#include "capture/inference/run_policy.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "analysis/errors.hpp"
#include "analysis/policies/registry.hpp"
#include "capture/inference/memory_need.hpp"
#include "capture/inference/to_floats.hpp"

namespace keyscope::capture {
namespace {

constexpr std::size_t kTopLogits = 10;

// Ids of the largest logits, descending; equal logits in order of id.
std::vector<std::int32_t> top_ids(const std::vector<float>& logits, std::size_t n) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  n = std::min(n, ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n), ids.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      const float x = logits[static_cast<std::size_t>(a)],
                                  y = logits[static_cast<std::size_t>(b)];
                      return x != y ? x > y : a < b;
                    });
  ids.resize(n);
  return ids;
}

}  // namespace

PolicyRun::PolicyRun(const Model& model, const CaptureOptions& options, const recording::RecordPlan& plan,
                     int run, std::span<recording::RecordSink* const> sinks)
    : model_(model),
      options_(options),
      plan_(plan),
      run_plan_(plan.runs[static_cast<std::size_t>(run)]),
      run_(run),
      sinks_(sinks),
      policy_(analysis::make_policy(options.policies[static_cast<std::size_t>(run)], options.seed)) {
  const ModelConfig& config = model.config();
  for (int layer = 0; layer < config.n_layers; ++layer) {
    const bool evicts = policy_ != nullptr && policy_->evicts(layer);
    caches_.emplace_back(config.n_kv_heads, config.head_dim, cache_rows(run_plan_, plan.n_prompt(), evicts),
                         model.transformer().dtype());
    outcome_.peak_cache_bytes += caches_.back().n_bytes();
  }
  outcome_.name = run_plan_.name;
  prompt_result_.run = run;
}

RunOutcome PolicyRun::run(const std::function<void()>& before_block,
                          const std::function<void(std::int64_t, std::int64_t)>& after_block) {
  const std::span<const std::int32_t> ids = options_.prompt_ids;
  while (position_ < plan_.n_prompt()) {
    before_block();
    const std::int64_t n = std::min(run_plan_.block_size, plan_.n_prompt() - position_);
    BlockOutput output =
        run_block(ids.subspan(static_cast<std::size_t>(position_), static_cast<std::size_t>(n)), true);
    keep_scored_logits(output.hidden);
    const bool last = position_ == plan_.n_prompt();
    if (last) keep_last_logits(output.hidden);
    if (last && run_plan_.max_generated > 0) generate_next(output);
    tell(output);
    after_block(block_, n);
  }
  tell_prompt_result();
  // Greedy, one token a block; the last id is never fed back.
  while (!generation_ended()) {
    before_block();
    const std::int32_t id = outcome_.generated.back();
    BlockOutput output = run_block({&id, 1}, false);
    keep_last_logits(output.hidden);
    generate_next(output);
    tell(output);
    after_block(block_, 1);
  }
  for (recording::RecordSink* sink : sinks_) sink->run_done(run_, generated_);
  return outcome_;
}

LayerStep PolicyRun::layer_step(int layer, std::int64_t n_new, bool prompt) const {
  LayerStep step;
  step.layer = layer;
  step.first_position = position_;
  step.prompt = prompt;
  step.last_prompt_block = prompt && position_ + n_new == plan_.n_prompt();
  step.policy = policy_.get();
  step.budget = run_plan_.budget;
  step.record_layer = std::binary_search(plan_.layers.begin(), plan_.layers.end(), layer);
  step.recording = {plan_.keys, plan_.queries, plan_.values, plan_.attention};
  return step;
}

PolicyRun::BlockOutput PolicyRun::run_block(std::span<const std::int32_t> ids, bool prompt) {
  using Clock = std::chrono::steady_clock;
  const auto started = Clock::now();
  const auto n = static_cast<std::int64_t>(ids.size());
  const Transformer& transformer = model_.transformer();
  auto record = std::make_shared<recording::BlockRecord>();
  const RotaryTable rotary = transformer.rotary(position_, n);
  at::Tensor hidden = transformer.embed(ids);
  for (int layer = 0; layer < model_.config().n_layers; ++layer) {
    const LayerStep step = layer_step(layer, n, prompt);
    LayerResult result =
        run_layer(transformer, step, hidden, rotary, caches_[static_cast<std::size_t>(layer)]);
    hidden = result.hidden;
    outcome_.peak_cache_rows = std::max(outcome_.peak_cache_rows, result.peak_rows);
    if (step.record_layer) record->layers.push_back(std::move(result.record));
  }
  record->run = run_;
  record->block = block_++;
  record->start = static_cast<std::int32_t>(position_);
  record->n_new = static_cast<std::int32_t>(n);
  record->prompt = prompt;
  record->elapsed_ms = std::chrono::duration<float, std::milli>(Clock::now() - started).count();
  position_ += n;
  return {hidden, std::move(record)};
}

void PolicyRun::tell(const BlockOutput& output) {
  for (recording::RecordSink* sink : sinks_) sink->block(output.record);
}

std::vector<float> PolicyRun::finite_logits(const at::Tensor& hidden) const {
  auto logits = to_floats(model_.transformer().logits(hidden));
  if (!std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); }))
    throw InvalidInput(
        fmt::format("the logits of the block before position {} hold NaN or Inf; are the weights "
                    "damaged, or too large for this --dtype?",
                    position_));
  return logits;
}

// The head is applied to no position whose logits nobody reads.
void PolicyRun::keep_scored_logits(const at::Tensor& hidden) {
  if (!plan_.logits) return;
  const std::int64_t n_new = hidden.size(0);
  const std::int64_t first_scored = plan_.n_prompt() - plan_.score_last;
  const std::int64_t skip = std::max<std::int64_t>(0, first_scored - (position_ - n_new));
  if (skip >= n_new) return;
  const auto logits = finite_logits(hidden.narrow(0, skip, n_new - skip));
  prompt_result_.logits.insert(prompt_result_.logits.end(), logits.begin(), logits.end());
}

void PolicyRun::keep_last_logits(const at::Tensor& hidden) {
  last_logits_ = finite_logits(hidden.narrow(0, hidden.size(0) - 1, 1));
  if (position_ != plan_.n_prompt()) return;
  prompt_result_.top_ids = top_ids(last_logits_, kTopLogits);
  for (const std::int32_t id : prompt_result_.top_ids)
    prompt_result_.top_logits.push_back(last_logits_[static_cast<std::size_t>(id)]);
}

void PolicyRun::tell_prompt_result() {
  for (recording::RecordSink* sink : sinks_) sink->prompt_done(prompt_result_);
}

bool PolicyRun::generation_ended() const {
  const auto& ids = outcome_.generated;
  if (static_cast<std::int64_t>(ids.size()) >= run_plan_.max_generated) return true;
  const auto& eos = model_.config().eos_token_ids;
  return !options_.ignore_eos && std::find(eos.begin(), eos.end(), ids.back()) != eos.end();
}

// The text an id adds is what it adds after the one before it: at the beginning of a text, decoders of the
// SentencePiece kind drop a space that belongs here.
void PolicyRun::generate_next(BlockOutput& output) {
  const std::int32_t id = top_ids(last_logits_, 1).front();
  if (const tokenizer::Tokenizer* tokenizer = model_.tokenizer()) {
    const std::int32_t before =
        outcome_.generated.empty() ? options_.prompt_ids.back() : outcome_.generated.back();
    output.record->next_text = tokenizer->token_text(std::array{before, id}).token(1);
  }
  output.record->next_id = id;
  outcome_.generated.push_back(id);
  if (generated_.offset.empty()) generated_.offset.push_back(0);
  generated_.id.push_back(id);
  generated_.text += output.record->next_text;
  generated_.offset.push_back(static_cast<std::int64_t>(generated_.text.size()));
}

}  // namespace keyscope::capture
