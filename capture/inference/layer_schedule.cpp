#include "capture/inference/layer_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace keyscope::capture {
namespace {

// Enough rows for matrix products at full speed, few enough for their results to take little memory.
constexpr std::int64_t kChunkTokens = 2048;

// One run's prompt through one layer; hidden (n_prompt, hidden_size) becomes the layer's output.
void run_layer(const CaptureContext& context, PolicyRun& run, int index, const LayerWeights& weights,
               at::Tensor& hidden) {
  const auto& layers = context.plan.layers;
  const bool recorded = std::binary_search(layers.begin(), layers.end(), index);
  const std::int64_t n_prompt = context.plan.n_prompt(), chunk = chunk_tokens(run.run_plan().block_size);
  std::int64_t position = 0;
  int block = 0;
  const auto tell = [&](std::int64_t n_tokens, recording::LayerBlock record) {
    if (recorded) {
      auto told = std::make_shared<recording::BlockRecord>();
      told->run = run.index();
      told->block = block;
      told->start = static_cast<std::int32_t>(position);
      told->n_new = static_cast<std::int32_t>(n_tokens);
      told->elapsed_ms = std::numeric_limits<float>::quiet_NaN();
      told->layers.push_back(std::move(record));
      for (recording::RecordSink* sink : context.sinks) sink->block(told);
    }
    position += n_tokens;
    ++block;
    context.after_block(run.index(), block, n_tokens, 1);
  };
  for (std::int64_t first = 0; first < n_prompt; first += chunk) {
    at::Tensor rows = hidden.narrow(0, first, std::min(chunk, n_prompt - first));
    run.layer(index).run(weights, rows, first, context.before_block, tell);
  }
  run.finish_prompt_layer(index);
}

}  // namespace

std::int64_t chunk_tokens(std::int64_t block_size) {
  return std::max<std::int64_t>(1, kChunkTokens / block_size) * block_size;
}

void run_prompts_by_layers(const CaptureContext& context,
                           const std::vector<std::unique_ptr<PolicyRun>>& runs) {
  const Transformer& transformer = context.model.transformer();
  std::vector<at::Tensor> hidden;  // per run, of the whole prompt
  for (std::size_t run = 0; run < runs.size(); ++run)
    hidden.push_back(transformer.embed(context.options.prompt_ids));
  for (int index = 0; index < context.model.config().n_layers; ++index) {
    const auto weights = transformer.weights().layer(index);
    transformer.weights().prefetch(index + 1);
    for (std::size_t run = 0; run < runs.size(); ++run)
      run_layer(context, *runs[run], index, *weights, hidden[run]);
    transformer.weights().release(index);
  }
  for (std::size_t run = 0; run < runs.size(); ++run) {
    const std::int64_t n_last = std::min(context.plan.n_prompt(), context.plan.score_last);
    runs[run]->take_output(hidden[run].narrow(0, context.plan.n_prompt() - n_last, n_last),
                           context.plan.n_prompt() - n_last);
    hidden[run].reset();
  }
}

}  // namespace keyscope::capture
