#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "analysis/matrix_view.hpp"
#include "analysis/policies/policy.hpp"
#include "capture/inference/capture.hpp"
#include "capture/inference/completion.hpp"
#include "capture/model/model.hpp"

namespace keyscope::capture {

// One product of a model's shape, the MLP's widening (rows × hidden × intermediate), in its dtype and with
// its threads: the roof over a prefill.
class ProductTimer {
 public:
  virtual ~ProductTimer() = default;
  virtual double measure_seconds() = 0;      // of one
  virtual double multiply_adds() const = 0;  // likewise
};

// A block's attention over one KV head's cache, to be timed.
struct AttentionTiming {
  MatrixView keys, values;                  // (n_rows, head_dim)
  std::span<const std::int32_t> positions;  // (n_rows), the block's queries being the last of them
  std::int64_t group_size = 1;              // query heads that share the KV head
  std::int64_t block = 1;                   // queries of each
};

// All that needs LibTorch, which takes half a second to start: it lies in a library of its own, which is
// opened when something of it is first asked for. Model::load, run_capture and the other functions of this
// folder that compute go through here.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::shared_ptr<const Model> load_model(const std::filesystem::path& named,
                                                  const ModelOptions& options) const = 0;
  virtual std::vector<RunOutcome> run_capture(const Model& model, const CaptureOptions& options,
                                              std::span<recording::RecordSink* const> sinks,
                                              CaptureControl& control) const = 0;
  virtual CaptureEstimate estimate_capture(const Model& model, const recording::RecordPlan& plan) const = 0;
  virtual CompletionCost complete_prompts(const Model& model, const CompletionSettings& settings,
                                          std::span<const CompletionRequest> requests,
                                          const CompletionWatch& watch) const = 0;

  virtual RotaryAngles rotary_angles(const ModelConfig& config, std::int64_t n) const = 0;

  //   model: kept by the caller
  virtual std::unique_ptr<ProductTimer> product_timer(const Model& model, std::int64_t rows) const = 0;
  // Processor time of attention with the statistics that a policy reads, less that of attention alone; 0
  // where it reads none, or where they are lost in the noise.
  virtual double statistics_seconds(const AttentionTiming& attention,
                                    const analysis::PolicyNeeds& needs) const = 0;
};

// The one of this program: linked into it, or libkeyscope_engine.so beside it.
//   throws Error where that cannot be opened
const Engine& engine();

// Lets the engine's threads sleep while they wait for each other, where other programs keep this machine's
// processors busy: else they spin, which is faster where a processor is theirs, and keeps off the thread that
// they wait for where it is not. What the environment says stays (OMP_WAIT_POLICY, GOMP_SPINCOUNT). To be
// called before threads are started, as it may change the environment.
void let_threads_sleep_on_busy_machines();

}  // namespace keyscope::capture
