#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "capture/inference/completion.hpp"
#include "capture/inference/run_state.hpp"
#include "capture/model/config.hpp"
#include "capture/model/transformer.hpp"

namespace keyscope::capture {

// Tokens that a request's run sees at most: its prompt, and every id it may generate but the last.
std::int64_t most_tokens(const CompletionRequest& request);

// Some of the requests, by index.
using RequestIndices = std::vector<std::size_t>;

// A block that is read once for all of these requests.
struct SharedBlock {
  std::span<const std::int32_t> ids;
  std::int64_t first_position;
  const RequestIndices& requests;
  std::span<const StateRule> open;  // as RunState::run_block takes them
};

// What the walk over the tree is made of. Runs lie on a stack: the newest goes on, those below wait until its
// prompt is over.
class CompletionSteps {
 public:
  CompletionSteps() = default;
  CompletionSteps(const CompletionSteps&) = delete;
  CompletionSteps& operator=(const CompletionSteps&) = delete;
  virtual ~CompletionSteps() = default;

  virtual void begin(const StateRule& rule) = 0;   // puts a run that has read nothing on the stack
  virtual void fork(const StateRule& rule) = 0;    // puts a copy of the newest run on the stack
  virtual void follow(const StateRule& rule) = 0;  // the newest run goes on under this rule
  virtual void read(const SharedBlock& block) = 0;
  // Takes the newest run, whose prompt is over, off the stack: it goes on once for these requests, which
  // differ in nothing, now or together with others.
  virtual void generate(const RequestIndices& requests) = 0;
  virtual void end() = 0;  // of the walk: what waits for others waits no more
};

// The requests as a tree of common blocks: see complete_prompts, which has checked them.
class CompletionTree {
 public:
  // requests: must outlive the tree
  CompletionTree(const ModelConfig& config, const CompletionSettings& settings,
                 std::span<const CompletionRequest> requests);

  // Depth first. A branch that waits keeps the rows of all tokens before it, so those that evict nothing go
  // last, and need no copy.
  void walk(CompletionSteps& steps) const;

 private:
  // A policy with its budget. Rule 0 is that nothing is evicted.
  struct Rule {
    std::unique_ptr<analysis::Policy> policy;
    std::int64_t budget = 0;
    std::vector<std::int64_t> budgets;  // as split_budgets gives them
    std::int64_t uncut = 0;             // rows up to which nothing is evicted
  };
  // Whom a run serves, under which rule.
  struct Course {
    std::size_t rule = 0;
    RequestIndices requests;
  };

  std::size_t rule_of(const CompletionRequest& request);
  StateRule state_rule(const Course& course) const;
  std::map<std::vector<std::int32_t>, RequestIndices> by_next_ids(std::int64_t position,
                                                                  const RequestIndices& requests) const;
  std::vector<Course> by_rule(std::int64_t position, const Course& course) const;
  std::vector<Course> by_continuation(const Course& course) const;

  void descend(CompletionSteps& steps, std::int64_t position, Course course) const;
  Course read(CompletionSteps& steps, std::int64_t position, std::span<const std::int32_t> ids,
              const Course& course) const;
  void finish(CompletionSteps& steps, const Course& course) const;

  const ModelConfig& config_;
  CompletionSettings settings_;
  std::span<const CompletionRequest> requests_;
  std::vector<Rule> rules_;
  // By policy in full, budget and, where that matters, length of the prompt.
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, std::size_t> rule_indices_;
  std::vector<std::size_t> request_rules_;  // one per request
  std::vector<std::int32_t> watched_;       // of all requests
};

// Takes the walk's steps: runs blocks, scores prompts, generates, and reports it.
class CompletionRun : public CompletionSteps {
 public:
  // All must outlive it.
  //   together: how many runs wait for each other to generate in one pass over the weights
  CompletionRun(const Model& model, const CompletionSettings& settings,
                std::span<const CompletionRequest> requests, const CompletionWatch& watch,
                std::size_t together);

  void begin(const StateRule& rule) override;
  void fork(const StateRule& rule) override;
  void follow(const StateRule& rule) override;
  void read(const SharedBlock& block) override;
  void generate(const RequestIndices& requests) override;
  void end() override { generate_waiting(); }

  // So far, but for the seconds.
  const CompletionCost& cost() const { return cost_; }

 private:
  // A run that generates for these requests.
  struct Generating {
    std::unique_ptr<RunState> state;
    RequestIndices requests;
    GrowingText text;
  };

  RunState& newest() { return *states_.back(); }
  void generate_waiting();
  void choose_next(std::vector<Generating*>& runs);  // of each; only those stay that go on
  void finish(Generating& run);
  void score(const at::Tensor& hidden, std::span<const std::int32_t> next_ids, std::int64_t first,
             const RequestIndices& requests);
  void count(std::int64_t n_tokens, const RequestIndices& requests);
  void report_progress() const;

  const Model& model_;
  const CompletionSettings& settings_;
  std::span<const CompletionRequest> requests_;
  const CompletionWatch& watch_;
  std::size_t together_;
  std::vector<std::unique_ptr<RunState>> states_;       // the stack
  std::vector<Generating> generating_;                  // at most together_
  std::vector<std::vector<double>> log_probabilities_;  // one per request
  CompletionProgress progress_;
  CompletionCost cost_;
};

// What the runs of a walk hold while they wait and go on, at the moment when that is most.
struct CompletionMemory {
  std::int64_t cache_bytes = 0;  // keys and values, and what is kept of a block's attention for evictions
  std::int64_t n_runs = 0;       // that are alive then
};

// Takes every step of the walk but for the inference.
//   block_size: B; element_bytes: of the model's dtype; together: as CompletionRun has it
CompletionMemory completion_memory(const ModelConfig& config, std::int64_t block_size,
                                   const CompletionTree& tree, std::int64_t element_bytes,
                                   Arithmetic arithmetic, std::size_t together);

// How many runs may generate in one pass without the result of any depending on the others, to the last bit:
// one where not all that rows go through is our own loops.
std::size_t most_together(const Transformer& transformer);

// Refuses runs that together need more than `available` bytes.
//   block_bytes: of the largest block's activations
//   throws Error with the figures and what would need less
void check_completion_memory(const CompletionMemory& memory, std::int64_t block_bytes,
                             std::int64_t available);

}  // namespace keyscope::capture
