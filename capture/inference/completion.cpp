#include "capture/inference/completion.hpp"

#include <algorithm>
#include <chrono>

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "base/errors.hpp"
#include "analysis/policies/registry.hpp"
#include "capture/inference/completion_memory.hpp"
#include "capture/inference/completion_run.hpp"
#include "capture/inference/completion_tree.hpp"
#include "capture/inference/memory_need.hpp"

namespace keyscope::capture {
namespace {

// The prompt's budgeted run as `memory_need` looks at it: nothing is recorded.
recording::RecordPlan plan_of(const CompletionSettings& settings, const CompletionRequest& request) {
  recording::RunPlan run;
  run.name = request.policy.name;
  run.budget = request.policy.name == "none" ? 0 : request.budget;
  run.block_size = settings.block_size;
  run.max_generated = request.continuation.max_new_tokens;
  recording::RecordPlan plan;
  plan.prompt.id.resize(request.prompt_ids.size());
  plan.runs.push_back(std::move(run));
  return plan;
}

void check_ids(const ModelConfig& config, const CompletionRequest& request, const std::string& where) {
  const std::int64_t n = std::ssize(request.prompt_ids), n_new = request.continuation.max_new_tokens;
  if (n == 0) throw InvalidInput(where + ": the prompt is empty; expected at least one token");
  for (std::int64_t i = 0; i < n; ++i)
    if (const std::int32_t id = request.prompt_ids[static_cast<std::size_t>(i)];
        id < 0 || id >= config.vocab_size)
      throw InvalidInput(
          fmt::format("{}: prompt token {} is id {}, and the model's vocabulary has ids 0 to {}", where, i,
                      id, config.vocab_size - 1));
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
  check_ids(model.config(), request, where);
}

// Each run by itself, which can be told what would fit, then all that are alive at once.
void require_memory(const Model& model, const CompletionSettings& settings,
                    std::span<const CompletionRequest> requests, const CompletionTree& tree) {
  const Transformer& transformer = model.transformer();
  const auto element_bytes = static_cast<std::int64_t>(c10::elementSize(transformer.dtype()));
  const std::int64_t available = model.available_memory();
  std::int64_t block_bytes = 0;
  for (const CompletionRequest& request : requests) {
    const recording::RecordPlan plan = plan_of(settings, request);
    check_memory(model.config(), plan, element_bytes, transformer.arithmetic(), available);
    const MemoryNeed need =
        memory_need(model.config(), plan, plan.runs.front(), element_bytes, transformer.arithmetic());
    block_bytes = std::max(block_bytes, need.block_bytes);
  }
  check_completion_memory(
      completion_memory(model.config(), settings.block_size, tree, element_bytes, transformer.arithmetic()),
      block_bytes, available);
}

}  // namespace

CompletionCost complete_prompts(const Model& model, const CompletionSettings& settings,
                                std::span<const CompletionRequest> requests, const CompletionWatch& watch) {
  const c10::InferenceMode inference;
  at::set_num_threads(model.threads());
  if (settings.block_size < 1)
    throw UsageError(fmt::format("a block of {} tokens; expected at least 1", settings.block_size));
  for (std::size_t i = 0; i < requests.size(); ++i)
    check_request(model, requests[i], fmt::format("request {}", i));
  const CompletionTree tree(settings, requests);
  require_memory(model, settings, requests, tree);
  CompletionRun run(model, settings, requests, watch);
  const auto started = std::chrono::steady_clock::now();
  tree.walk(run);
  CompletionCost cost = run.cost();
  cost.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return cost;
}

}  // namespace keyscope::capture
