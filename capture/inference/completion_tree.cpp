#include "capture/inference/completion_tree.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include "analysis/policies/registry.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"
#include "capture/inference/budget_split.hpp"
#include "capture/inference/completion.hpp"
#include "capture/inference/eviction.hpp"
#include "capture/inference/memory_need.hpp"
#include "capture/model/policy_file.hpp"
#include "capture/model/transformer.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::capture {

std::int64_t most_tokens(const CompletionRequest& request) {
  return std::ssize(request.prompt_ids) + std::max<std::int64_t>(0, request.continuation.max_new_tokens - 1);
}

CompletionTree::CompletionTree(const ModelConfig& config, const CompletionSettings& settings,
                               std::span<const CompletionRequest> requests)
    : config_(config), settings_(settings), requests_(requests) {
  rules_.emplace_back();
  for (const CompletionRequest& request : requests) {
    request_rules_.push_back(rule_of(request));
    watched_.insert(watched_.end(), request.watched.begin(), request.watched.end());
  }
  std::ranges::sort(watched_);
  const auto twice = std::ranges::unique(watched_);
  watched_.erase(twice.begin(), twice.end());
}

// A policy that will never have more rows than its budget evicts nothing.
std::size_t CompletionTree::rule_of(const CompletionRequest& request) {
  if (request.policy.name == "none") return 0;
  const auto spec = analysis::with_defaults(request.policy, settings_.seed);
  // Budgets of layers may depend on how long the prompt is.
  const bool by_length = analysis::read_slots(spec).split == analysis::Slots::Split::kPyramid;
  const std::int64_t n_prompt = by_length ? std::ssize(request.prompt_ids) : 0;
  const auto [found, is_new] = rule_indices_.try_emplace(
      {spec.name + recording::parameters_json(spec.options), request.budget, n_prompt}, rules_.size());
  if (is_new) {
    auto policy = policy_for(request.policy, settings_.seed, config_);
    check_slots(config_, request.policy, *policy, request.budget);
    auto budgets = split_budgets(config_, *policy, request.budget, n_prompt);
    const std::int64_t uncut = rows_uncut(*policy, budgets, request.budget);
    rules_.push_back({std::move(policy), request.budget, std::move(budgets), uncut});
  }
  return rules_[found->second].uncut >= most_tokens(request) ? 0 : found->second;
}

StateRule CompletionTree::state_rule(const Course& course) const {
  const Rule& rule = rules_[course.rule];
  StateRule state_rule{rule.policy.get(), rule.budget, {}, 0, rule.budgets, watched_};
  for (const std::size_t request : course.requests) {
    const analysis::Policy* policy = rules_[request_rules_[request]].policy.get();
    if (policy != nullptr) state_rule.counts.add(policy->needs());
    state_rule.most_tokens = std::max(state_rule.most_tokens, most_tokens(requests_[request]));
  }
  return state_rule;
}

void CompletionTree::walk(CompletionSteps& steps) const {
  if (requests_.empty()) return;
  Course all{0, RequestIndices(requests_.size())};
  std::iota(all.requests.begin(), all.requests.end(), 0);
  steps.begin(state_rule(all));
  descend(steps, 0, std::move(all));
  steps.end();
}

// No ids where the prompt is over.
std::map<std::vector<std::int32_t>, RequestIndices> CompletionTree::by_next_ids(
    std::int64_t position, const RequestIndices& requests) const {
  std::map<std::vector<std::int32_t>, RequestIndices> branches;
  for (const std::size_t request : requests) {
    const auto left = requests_[request].prompt_ids.subspan(position);
    const auto next = left.first(std::min(left.size(), static_cast<std::size_t>(settings_.block_size)));
    branches[{next.begin(), next.end()}].push_back(request);
  }
  return branches;
}

// Whose caches would be larger than their budgets take up their own rules; the others evict nothing yet. Rows
// are counted as if none had been dropped past a sliding window: a rule taken up too early is the same rule.
std::vector<CompletionTree::Course> CompletionTree::by_rule(std::int64_t position,
                                                            const Course& course) const {
  if (course.rule != 0) return {course};
  std::map<std::size_t, RequestIndices, std::greater<>> rules;
  for (const std::size_t request : course.requests) {
    const std::size_t own = request_rules_[request];
    rules[position > rules_[own].uncut ? own : 0].push_back(request);
  }
  std::vector<Course> courses;
  courses.reserve(rules.size());
  for (auto& [rule, requests] : rules) courses.push_back({rule, std::move(requests)});
  return courses;
}

// Requests that are the same to the end are completed once.
std::vector<CompletionTree::Course> CompletionTree::by_continuation(const Course& course) const {
  std::vector<Course> courses;
  for (const std::size_t request : course.requests) {
    const auto same = std::ranges::find_if(courses, [&](const Course& others) {
      return requests_[others.requests.front()].continuation == requests_[request].continuation;
    });
    if (same != courses.end())
      same->requests.push_back(request);
    else
      courses.push_back({course.rule, {request}});
  }
  return courses;
}

// Where all go on together, the newest run is theirs; it is copied only where they part. It is ended here.
void CompletionTree::descend(CompletionSteps& steps, std::int64_t position, Course course) const {
  for (;;) {
    auto branches = by_next_ids(position, course.requests);
    while (branches.size() > 1) {
      auto branch = branches.extract(branches.begin());
      const Course mine{course.rule, std::move(branch.mapped())};
      steps.fork(state_rule(mine));
      if (branch.key().empty())
        finish(steps, mine);
      else
        descend(steps, position + std::ssize(branch.key()), read(steps, position, branch.key(), mine));
    }
    const auto last = branches.extract(branches.begin());
    course.requests = last.mapped();
    steps.follow(state_rule(course));
    if (last.key().empty()) return finish(steps, course);
    course = read(steps, position, last.key(), course);
    position += std::ssize(last.key());
  }
}

// Runs a block for all and returns whom the newest run serves from its end on. Those who evict after it by
// other rules have the block in common, and are taken to their ends here.
CompletionTree::Course CompletionTree::read(CompletionSteps& steps, std::int64_t position,
                                            std::span<const std::int32_t> ids, const Course& course) const {
  const std::int64_t end = position + std::ssize(ids);
  std::vector<Course> courses = by_rule(end, course);
  std::vector<StateRule> open;
  for (const Course& each : courses)
    if (each.rule != course.rule) open.push_back(state_rule(each));
  steps.read({ids, position, course.requests, open});
  for (std::size_t i = 0; i + 1 < courses.size(); ++i) {
    steps.fork(state_rule(courses[i]));
    descend(steps, end, std::move(courses[i]));
  }
  steps.follow(state_rule(courses.back()));
  return std::move(courses.back());
}

// What is generated may evict although the prompt did not.
void CompletionTree::finish(CompletionSteps& steps, const Course& course) const {
  std::vector<Course> all;
  for (const Course& each : by_rule(std::numeric_limits<std::int64_t>::max(), course))
    for (Course& alike : by_continuation(each)) all.push_back(std::move(alike));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool last = i + 1 == all.size();
    if (last)
      steps.follow(state_rule(all[i]));
    else
      steps.fork(state_rule(all[i]));
    steps.generate(all[i].requests);
  }
}

CompletionRun::CompletionRun(const Model& model, const CompletionSettings& settings,
                             std::span<const CompletionRequest> requests, const CompletionWatch& watch,
                             std::size_t together)
    : model_(model),
      settings_(settings),
      requests_(requests),
      watch_(watch),
      together_(together),
      log_probabilities_(requests.size()) {
  for (const CompletionRequest& request : requests) progress_.tokens_total += most_tokens(request);
}

void CompletionRun::begin(const StateRule& rule) {
  states_.push_back(std::make_unique<RunState>(model_, settings_, rule));
}

void CompletionRun::fork(const StateRule& rule) { states_.push_back(newest().fork(rule)); }

void CompletionRun::follow(const StateRule& rule) { newest().follow(rule); }

void CompletionRun::read(const SharedBlock& block) {
  watch_.control.wait_for_turn();
  const std::int64_t first = block.first_position;
  if (first > 0) score(newest().last_hidden(), block.ids.first(1), first - 1, block.requests);
  const at::Tensor hidden = newest().run_block(block.ids, block.open);
  score(hidden, block.ids.subspan(1), first, block.requests);
  count(std::ssize(block.ids), block.requests);
}

// Of positions first, first + 1, …, which are followed by these ids: the logits that any request wants.
void CompletionRun::score(const at::Tensor& hidden, std::span<const std::int32_t> next_ids,
                          std::int64_t first, const RequestIndices& requests) {
  const auto wanted_from = [&](std::size_t request) {  // of the next ids
    const std::int64_t from =
        requests_[request].score_from.value_or(std::numeric_limits<std::int64_t>::max());
    return std::clamp<std::int64_t>(from - first - 1, 0, std::ssize(next_ids));
  };
  std::int64_t skip = std::ssize(next_ids);
  for (const std::size_t request : requests) skip = std::min(skip, wanted_from(request));
  if (skip == std::ssize(next_ids)) return;
  const auto scores = log_probabilities(model_.transformer(), hidden.narrow(0, skip, hidden.size(0) - skip),
                                        next_ids.subspan(skip), first + skip);
  for (const std::size_t request : requests)
    std::copy(scores.begin() + (wanted_from(request) - skip), scores.end(),
              std::back_inserter(log_probabilities_[request]));
}

void CompletionRun::generate(const RequestIndices& requests) {
  const CompletionRequest& request = requests_[requests.front()];
  Generating run{std::move(states_.back()), requests,
                 GrowingText(model_, request.continuation, request.prompt_ids.back())};
  states_.pop_back();
  run.text.completion().n_prompt = std::ssize(request.prompt_ids);
  run.text.completion().rows_kept = run.state->mean_rows();
  generating_.push_back(std::move(run));
  if (generating_.size() == together_) generate_waiting();
}

void CompletionRun::generate_waiting() {
  std::vector<Generating*> going_on;
  for (Generating& run : generating_) {
    if (run.text.has_ended())
      finish(run);
    else
      going_on.push_back(&run);
  }
  choose_next(going_on);
  while (!going_on.empty()) {
    watch_.control.wait_for_turn();
    std::vector<RunState*> states;
    std::vector<std::int32_t> ids;
    for (const Generating* run : going_on) {
      states.push_back(run->state.get());
      ids.push_back(run->text.last_id());
    }
    RunState::run_tokens(states, ids);
    for (const Generating* run : going_on) count(1, run->requests);
    choose_next(going_on);
  }
  generating_.clear();
}

void CompletionRun::choose_next(std::vector<Generating*>& runs) {
  if (runs.empty()) return;
  std::vector<at::Tensor> hidden;
  std::vector<std::int64_t> positions;
  for (const Generating* run : runs) {
    hidden.push_back(run->state->last_hidden());
    positions.push_back(run->state->position() - 1);
  }
  auto logits = finite_logits(model_.transformer(), at::cat(hidden), positions);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i]->text.take(std::move(logits[i]));
    if (runs[i]->text.has_ended()) finish(*runs[i]);
  }
  std::erase_if(runs, [](const Generating* run) { return run->text.has_ended(); });
}

void CompletionRun::finish(Generating& run) {
  Completion& completion = run.text.completion();
  const std::int64_t fed_back = std::max<std::int64_t>(0, std::ssize(completion.generated) - 1);
  const std::int64_t saved = most_tokens(requests_[run.requests.front()]) - completion.n_prompt - fed_back;
  progress_.tokens_done += saved * std::ssize(run.requests);
  report_progress();
  completion.sizes = run.state->sizes();
  const std::vector<LostRow> lost = run.state->lost();
  for (const std::size_t index : run.requests) {
    completion.log_probabilities = std::move(log_probabilities_[index]);
    completion.lost.clear();
    std::ranges::copy_if(lost, std::back_inserter(completion.lost), [&](const LostRow& row) {
      return std::ranges::binary_search(requests_[index].watched, row.position);
    });
    watch_.on_done(index, completion);
  }
  run.state.reset();
}

void CompletionRun::count(std::int64_t n_tokens, const RequestIndices& requests) {
  cost_.tokens_asked += n_tokens * std::ssize(requests);
  cost_.tokens_run += n_tokens;
  progress_.tokens_done += n_tokens * std::ssize(requests);
  progress_.tokens_shared += n_tokens * (std::ssize(requests) - 1);
  report_progress();
}

void CompletionRun::report_progress() const {
  if (watch_.on_progress) watch_.on_progress(progress_);
}

namespace {

// Counts bytes where CompletionRun has caches.
class MemorySteps : public CompletionSteps {
 public:
  MemorySteps(const ModelConfig& config, std::int64_t block_size, std::int64_t element_bytes,
              Arithmetic arithmetic, std::size_t together)
      : config_(config),
        block_size_(block_size),
        element_bytes_(element_bytes),
        arithmetic_(arithmetic),
        together_(together) {}

  void begin(const StateRule& rule) override { add(rule); }
  void fork(const StateRule& rule) override { add(rule); }
  void follow(const StateRule&) override { runs_.back().open = 0; }  // caches stay as they were counted
  void read(const SharedBlock& block) override {
    runs_.back().open = open_bytes(block);
    look();
  }
  void generate(const RequestIndices&) override {
    generating_.push_back(runs_.back());
    runs_.pop_back();
    if (generating_.size() == together_) generating_.clear();
  }
  void end() override {}

  CompletionMemory peak() const { return {whole_bytes(peak_), n_runs_}; }

 private:
  // In float64: without overflow, whatever a damaged configuration asks for.
  struct Run {
    double cache = 0, open = 0;
  };

  void add(const StateRule& rule) {
    Run run;
    if (rule.counts.queries) run.cache += moment_bytes(config_);
    for (int layer = 0; layer < config_.n_layers; ++layer)
      run.cache += layer_cache_bytes(config_, layer, cache_rows(config_, block_size_, rule, layer),
                                     element_bytes_, arithmetic_);
    runs_.push_back(run);
    look();
  }

  // Statistics of a block's attention that wait for the evictions after it, over all rows that there may be.
  double open_bytes(const SharedBlock& block) const {
    AttentionWants wants;
    std::int64_t n_queries = 0;
    for (const StateRule& rule : block.open) {
      add_wants(wants, rule.policy->needs());
      n_queries = std::max(n_queries, looked_at_queries(*rule.policy));
    }
    const std::size_t per_row = (wants.last_row ? sizeof(float) : 0) + wants.windows.size() * sizeof(double);
    const auto n_rows = static_cast<double>(block.first_position + std::ssize(block.ids));
    const double queries =
        static_cast<double>(std::min(n_queries, block_size_) * config_.head_dim * element_bytes_);
    return (static_cast<double>(per_row) * n_rows + queries) * config_.n_heads * config_.n_layers;
  }

  void look() {
    double bytes = 0;
    for (const auto* runs : {&runs_, &generating_})
      for (const Run& run : *runs) bytes += run.cache + run.open;
    if (bytes <= peak_) return;
    peak_ = bytes;
    n_runs_ = std::ssize(runs_) + std::ssize(generating_);
  }

  const ModelConfig& config_;
  std::int64_t block_size_, element_bytes_;
  Arithmetic arithmetic_;
  std::size_t together_;
  std::vector<Run> runs_, generating_;
  double peak_ = 0;
  std::int64_t n_runs_ = 0;
};

}  // namespace

CompletionMemory completion_memory(const ModelConfig& config, std::int64_t block_size,
                                   const CompletionTree& tree, std::int64_t element_bytes,
                                   Arithmetic arithmetic, std::size_t together) {
  MemorySteps steps(config, block_size, element_bytes, arithmetic, together);
  tree.walk(steps);
  return steps.peak();
}

void check_completion_memory(const CompletionMemory& memory, std::int64_t block_bytes,
                             std::int64_t available) {
  if (memory.cache_bytes + block_bytes <= available) return;
  throw Error(fmt::format(
      "{} runs are in memory at once; their KV caches need {} and a block {}, and {} are available; "
      "fewer policies and budgets at a time, smaller budgets, or shorter "
      "prompts would need less",
      memory.n_runs, gib_text(memory.cache_bytes), gib_text(block_bytes), gib_text(available)));
}

std::size_t most_together(const Transformer& transformer) {
  const ModelConfig& config = transformer.config();
  const bool own_loops = transformer.arithmetic() == Arithmetic::kKernels && config.latent.rank == 0 &&
                         config.experts.n == 0 && config.layer_input.size == 0 &&
                         config.n_attending() == config.n_layers;
  return own_loops ? static_cast<std::size_t>(kThinRows) : 1;
}

}  // namespace keyscope::capture
