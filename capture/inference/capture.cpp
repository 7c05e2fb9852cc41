#include "capture/inference/capture.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include "base/errors.hpp"
#include "capture/inference/libtorch_engine.hpp"
#include "capture/inference/memory_need.hpp"
#include "capture/inference/policy_run.hpp"
#include "capture/model/transformer.hpp"

namespace keyscope::capture {

namespace {

// Counts blocks and tokens over all runs and reports progress. Under the layer schedule a token counts
// once per layer, which is what time goes by.
class ProgressCount {
 public:
  ProgressCount(const recording::RecordPlan& plan, int n_layers, const CaptureControl& control)
      : plan_(plan), n_layers_(n_layers), control_(control) {
    progress_.n_runs = static_cast<int>(plan.runs.size());
    for (const auto& run : plan.runs) progress_.tokens_total += run.max_tokens(plan.n_prompt());
  }

  void add(int run, std::int64_t block, std::int64_t n_tokens, int n_layers) {
    const recording::RunPlan& about = plan_.runs[run];
    progress_.run = about.name;
    progress_.run_index = run;
    progress_.block = block;
    progress_.n_blocks = about.max_blocks();
    layer_tokens_ += n_tokens * n_layers;
    progress_.tokens_done = layer_tokens_ / n_layers_;
    progress_.elapsed_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    if (control_.on_progress) control_.on_progress(progress_);
  }

 private:
  const recording::RecordPlan& plan_;
  int n_layers_;
  const CaptureControl& control_;
  CaptureProgress progress_;
  std::int64_t layer_tokens_ = 0;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

// The next block of every run: those that generate take their tokens in one pass over the weights.
//   returns whether any of them has more
bool advance_all(const std::vector<std::unique_ptr<PolicyRun>>& runs) {
  std::vector<PolicyRun*> generating;
  bool more = false;
  for (const auto& run : runs) {
    if (run->has_read_prompt())
      generating.push_back(run.get());
    else
      more = run->advance() || more;
  }
  return PolicyRun::advance(generating) || more;
}

// The turns of all runs, until the last one has ended.
void run_together(const std::vector<std::unique_ptr<PolicyRun>>& runs, CaptureControl& control) {
  const auto begins = [](const auto& run) { return run->next_position(); };
  do {
    control.wait_for_turn((*std::ranges::max_element(runs, {}, begins))->next_position());
  } while (advance_all(runs));
}

std::vector<RunOutcome> run_all(const Model& model, const CaptureOptions& options,
                                const recording::RecordPlan& plan,
                                std::span<recording::RecordSink* const> sinks, CaptureControl& control) {
  ProgressCount progress(plan, model.config().n_layers, control);
  const CaptureContext context{model,
                               options,
                               plan,
                               sinks,
                               [&](std::optional<std::int64_t> first) {
                                 plan.together() ? control.check_cancelled() : control.wait_for_turn(first);
                               },
                               [&] { return control.holds_up(); },
                               [&](int run, std::int64_t block, std::int64_t n_tokens, int n_layers) {
                                 progress.add(run, block, n_tokens, n_layers);
                               }};
  std::vector<std::unique_ptr<PolicyRun>> runs;
  runs.reserve(plan.runs.size());
  for (int run = 0; run < static_cast<int>(plan.runs.size()); ++run)
    runs.push_back(std::make_unique<PolicyRun>(context, run));
  if (plan.by_layers()) {
    run_prompts_by_layers(context, runs);
    while (advance_all(runs)) {
    }
  }
  if (plan.together()) run_together(runs, control);
  std::vector<RunOutcome> outcomes;
  for (auto& run : runs) {
    while (run->advance()) {
    }
    outcomes.push_back(run->outcome());
    run.reset();  // and with it its caches
  }
  return outcomes;
}

// After a failure every sink still hears that it is over; what one of them has to say about that no longer
// matters beside the first error.
void end_quietly(std::span<recording::RecordSink* const> sinks) {
  for (recording::RecordSink* sink : sinks) try {
      sink->end(false);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the first error is on its way
    }
}

}  // namespace

std::vector<RunOutcome> LibTorchEngine::run_capture(const Model& model, const CaptureOptions& options,
                                                    std::span<recording::RecordSink* const> sinks,
                                                    CaptureControl& control) const {
  const c10::InferenceMode inference;
  at::set_num_threads(model.threads());
  recording::RecordPlan wanted = plan_capture(model, options);
  if (sinks.empty()) wanted.layers.clear();
  const auto plan = std::make_shared<const recording::RecordPlan>(std::move(wanted));
  const Transformer& transformer = model.transformer();
  check_memory(model.config(), *plan, model.element_bytes(), transformer.arithmetic(),
               model.available_memory());
  std::vector<RunOutcome> outcomes;
  try {
    for (recording::RecordSink* sink : sinks) sink->begin(plan);
    outcomes = run_all(model, options, *plan, sinks, control);
  } catch (...) {
    end_quietly(sinks);
    throw;
  }
  for (recording::RecordSink* sink : sinks) sink->end(true);
  return outcomes;
}

}  // namespace keyscope::capture
