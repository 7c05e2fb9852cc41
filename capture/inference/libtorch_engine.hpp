#pragma once

#include "capture/inference/engine.hpp"

namespace keyscope::capture {

// The engine: each function stands where its subject does.
class LibTorchEngine final : public Engine {
 public:
  std::shared_ptr<const Model> load_model(const std::filesystem::path& named,
                                          const ModelOptions& options) const override;
  std::vector<RunOutcome> run_capture(const Model& model, const CaptureOptions& options,
                                      std::span<recording::RecordSink* const> sinks,
                                      CaptureControl& control) const override;
  CaptureEstimate estimate_capture(const Model& model, const recording::RecordPlan& plan) const override;
  CompletionCost complete_prompts(const Model& model, const CompletionSettings& settings,
                                  std::span<const CompletionRequest> requests,
                                  const CompletionWatch& watch) const override;
  RotaryAngles rotary_angles(const ModelConfig& config, std::int64_t n) const override;
  std::unique_ptr<ProductTimer> product_timer(const Model& model, std::int64_t rows) const override;
  double statistics_seconds(const AttentionTiming& attention,
                            const analysis::PolicyNeeds& needs) const override;
};

}  // namespace keyscope::capture
