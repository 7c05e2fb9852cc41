#pragma once

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "app/session/live.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::session {

// A capture without a model: two runs of invented blocks in one layer with two KV heads.
//   fail_at: the block of the first run before which it throws; -1: never
inline LiveCapture invented_capture(int n_blocks, int fail_at = -1) {
  return [=](std::span<recording::RecordSink* const> sinks, capture::CaptureControl& control) {
    constexpr int kBlock = 8, kHeads = 2, kHeadDim = 4;
    auto plan = std::make_shared<recording::RecordPlan>();
    plan->model = {"{}", "invented", 1, kHeads, kHeads, kHeadDim};
    plan->layers = {0};
    plan->prompt.offset.push_back(0);
    for (int i = 0; i < n_blocks * kBlock; ++i) {
      plan->prompt.id.push_back(i);
      plan->prompt.text += "w ";
      plan->prompt.offset.push_back(static_cast<std::int64_t>(plan->prompt.text.size()));
    }
    for (const char* name : {"none", "sink"}) {
      recording::RunPlan run;
      run.name = run.policy = name;
      run.parameters = "{}";
      run.budget = run.name == "none" ? 0 : kBlock;
      run.block_size = kBlock;
      run.n_prompt_blocks = n_blocks;
      plan->runs.push_back(run);
    }
    for (auto* sink : sinks) sink->begin(plan);
    try {
      for (int run = 0; run < 2; ++run) {
        for (int block = 0; block < n_blocks; ++block) {
          control.wait_for_turn();
          if (run == 0 && block == fail_at) throw std::runtime_error("the invented model broke");
          auto record = std::make_shared<recording::BlockRecord>();
          record->run = run;
          record->block = block;
          record->start = block * kBlock;
          record->n_new = kBlock;
          recording::LayerBlock layer;
          for (int i = 0; i < kHeads * kBlock * kHeadDim; ++i) {
            layer.keys.push_back(static_cast<float>((block * 31 + i * 17) % 23) - 11);
            layer.queries.push_back(static_cast<float>((block * 13 + i * 7) % 19) - 9);
          }
          layer.evictions.resize(kHeads);
          layer.attention.resize(kHeads);
          record->layers.push_back(std::move(layer));
          for (auto* sink : sinks) sink->block(record);
          capture::CaptureProgress progress;
          progress.run = plan->runs[run].name;
          progress.run_index = run;
          progress.n_runs = 2;
          progress.block = block + 1;
          progress.n_blocks = n_blocks;
          progress.tokens_done = std::int64_t{run * n_blocks + block + 1} * kBlock;
          progress.tokens_total = std::int64_t{2} * n_blocks * kBlock;
          if (control.on_progress) control.on_progress(progress);
        }
        recording::PromptResult result;
        result.run = run;
        for (auto* sink : sinks) sink->prompt_done(result);
        for (auto* sink : sinks) sink->run_done(run, {});
      }
    } catch (...) {
      for (auto* sink : sinks) sink->end(false);
      throw;
    }
    for (auto* sink : sinks) sink->end(true);
  };
}

// Waits at most 20 seconds.
template <typename Condition>
bool eventually(const Condition& done) {
  for (int i = 0; i < 4000; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace keyscope::session
