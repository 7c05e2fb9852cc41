#include "app/validation/measure_prompt.hpp"

#include <memory>
#include <vector>

#include <oneapi/tbb/parallel_for.h>

#include "base/errors.hpp"
#include "app/measures/recording_measures.hpp"
#include "capture/recording/memory_recording.hpp"
#include "capture/recording/writer.hpp"

namespace keyscope::validation {
namespace {

std::vector<HeadBounds> measure_bounds(const recording::Recording& recording,
                                       const std::atomic<bool>& cancelled) {
  const auto info = recording.info();
  const auto n_heads = static_cast<std::size_t>(info->model.n_kv_heads);
  std::vector<HeadBounds> bounds(info->layers.size() * n_heads);
  oneapi::tbb::parallel_for(std::size_t{0}, bounds.size(), [&](std::size_t i) {
    if (cancelled) throw Cancelled("interrupted");
    bounds[i] = measure_head_bounds(recording, 0, info->layers[i / n_heads], static_cast<int>(i % n_heads));
  });
  return bounds;
}

}  // namespace

capture::CaptureOptions prompt_capture_options(const Settings& settings, const Prompt& prompt) {
  capture::CaptureOptions options;
  options.prompt_ids = prompt.ids;
  options.policies = settings.policies;
  options.budget = settings.budget.rows_for(std::ssize(prompt.ids));
  options.block_size = settings.block_size;
  options.schedule = capture::Schedule::kLayer;
  options.record_values = true;
  options.record_logits = true;
  options.score_last = settings.score_last;
  options.seed = settings.seed;
  return options;
}

PromptRecord measure_prompt(const capture::Model& model, const Settings& settings, const Prompt& prompt,
                            const std::filesystem::path& recording, capture::CaptureControl& control,
                            const std::atomic<bool>& cancelled) {
  const capture::CaptureOptions options = prompt_capture_options(settings, prompt);
  const auto memory = recording::MemoryRecording::create();
  std::vector<recording::RecordSink*> sinks{memory.get()};
  std::unique_ptr<recording::RecordSink> file;
  if (!recording.empty()) sinks.push_back((file = recording::make_recording_writer(recording, true)).get());
  capture::run_capture(model, options, sinks, control);

  PromptRecord record;
  record.key = prompt_key(settings_json(settings), prompt.ids);
  record.n_tokens = std::ssize(prompt.ids);
  record.budget = options.budget;
  measures::MeasureOptions measured;
  measured.pca = false;
  measured.bounds = false;  // by measure_bounds, which looks at the lemma as well
  record.runs = measures::measure_recording(*memory, {}, measured, nullptr, cancelled);
  record.bounds = measure_bounds(*memory, cancelled);
  return record;
}

}  // namespace keyscope::validation
