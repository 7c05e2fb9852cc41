#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "capture/inference/completion.hpp"
#include "capture/inference/run_state.hpp"

namespace keyscope::capture {

// The walk over the requests' common blocks: see complete_prompts, which has checked them.
class CompletionTree {
 public:
  CompletionTree(const Model& model, const CompletionSettings& settings,
                 std::span<const CompletionRequest> requests, const CompletionWatch& watch);

  CompletionCost walk();

 private:
  using Requests = std::vector<std::size_t>;  // indices

  // A policy with its budget. Rule 0 is that nothing is evicted.
  struct Rule {
    std::unique_ptr<analysis::Policy> policy;
    std::int64_t budget = 0;
  };
  // What is known of a request while it runs.
  struct Job {
    std::size_t rule = 0;
    std::int64_t most_tokens = 0;
    std::vector<double> log_probabilities;
  };
  // Where requests part: the next block's ids (none: the prompt has ended) and the rule under which it runs.
  using Branch = std::pair<std::vector<std::int32_t>, std::size_t>;

  std::size_t rule_of(const CompletionRequest& request, std::int64_t most_tokens);
  StateRule state_rule(std::size_t rule, const Requests& requests) const;
  std::map<Branch, Requests> part(const RunState& state, std::size_t rule, const Requests& requests) const;

  void descend(std::unique_ptr<RunState> state, std::size_t rule, Requests requests);
  void run_prompt_block(RunState& state, std::span<const std::int32_t> ids, const Requests& requests);
  void score(const at::Tensor& hidden, std::span<const std::int32_t> next_ids, std::int64_t first,
             const Requests& requests);
  void finish(std::unique_ptr<RunState> state, std::size_t rule, const Requests& requests);
  void complete(RunState& state, const Requests& requests);
  void count(std::int64_t n_tokens, const Requests& requests);
  void tell_progress() const;

  const Model& model_;
  const CompletionSettings& settings_;
  std::span<const CompletionRequest> requests_;
  const CompletionWatch& watch_;
  std::vector<Rule> rules_;
  std::map<std::pair<std::string, std::int64_t>, std::size_t> rule_indices_;  // by policy in full and budget
  std::vector<Job> jobs_;                                                     // one per request
  CompletionProgress progress_;
  CompletionCost cost_;
};

}  // namespace keyscope::capture
