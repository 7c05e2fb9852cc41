#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "capture/inference/completion_tree.hpp"

namespace keyscope::capture {

// Takes the walk's steps: runs blocks, scores prompts, generates, and tells of it.
class CompletionRun : public CompletionSteps {
 public:
  // All must outlive it.
  CompletionRun(const Model& model, const CompletionSettings& settings,
                std::span<const CompletionRequest> requests, const CompletionWatch& watch);

  void begin(const StateRule& rule) override;
  void fork(const StateRule& rule) override;
  void follow(const StateRule& rule) override;
  void end() override;
  void read(const SharedBlock& block) override;
  void generate(const RequestIndices& requests) override;

  // So far, but for the seconds.
  const CompletionCost& cost() const { return cost_; }

 private:
  RunState& newest() { return *states_.back(); }
  void score(const at::Tensor& hidden, std::span<const std::int32_t> next_ids, std::int64_t first,
             const RequestIndices& requests);
  void count(std::int64_t n_tokens, const RequestIndices& requests);
  void tell_progress() const;

  const Model& model_;
  const CompletionSettings& settings_;
  std::span<const CompletionRequest> requests_;
  const CompletionWatch& watch_;
  std::vector<std::unique_ptr<RunState>> states_;       // the stack
  std::vector<std::vector<double>> log_probabilities_;  // one per request
  CompletionProgress progress_;
  CompletionCost cost_;
};

}  // namespace keyscope::capture
