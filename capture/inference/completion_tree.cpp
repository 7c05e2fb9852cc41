#include "capture/inference/completion_tree.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "analysis/policies/registry.hpp"
#include "capture/inference/continuation.hpp"
#include "capture/inference/token_scores.hpp"
#include "capture/recording/run_plan.hpp"

namespace keyscope::capture {
namespace {

// Ids that are fed back: all but the last.
std::int64_t most_fed_back(const CompletionRequest& request) {
  return std::max<std::int64_t>(0, request.continuation.max_new_tokens - 1);
}

}  // namespace

CompletionTree::CompletionTree(const Model& model, const CompletionSettings& settings,
                               std::span<const CompletionRequest> requests, const CompletionWatch& watch)
    : model_(model), settings_(settings), requests_(requests), watch_(watch) {
  rules_.emplace_back();
  for (const CompletionRequest& request : requests) {
    const std::int64_t most_tokens = std::ssize(request.prompt_ids) + most_fed_back(request);
    jobs_.push_back({rule_of(request, most_tokens), most_tokens, {}});
    progress_.tokens_total += most_tokens;
  }
}

// A policy that will never have more rows than its budget evicts nothing.
std::size_t CompletionTree::rule_of(const CompletionRequest& request, std::int64_t most_tokens) {
  if (request.policy.name == "none" || request.budget >= most_tokens) return 0;
  const auto spec = analysis::with_defaults(request.policy, settings_.seed);
  const auto [found, is_new] = rule_indices_.try_emplace(
      {spec.name + recording::parameters_json(spec.options), request.budget}, rules_.size());
  if (is_new) rules_.push_back({analysis::make_policy(request.policy, settings_.seed), request.budget});
  return found->second;
}

StateRule CompletionTree::state_rule(std::size_t rule, const Requests& requests) const {
  StateRule state_rule{rules_[rule].policy.get(), rules_[rule].budget, false, 0};
  for (const std::size_t request : requests) {
    const Job& job = jobs_[request];
    const analysis::Policy* policy = rules_[job.rule].policy.get();
    state_rule.counts_attention |= policy != nullptr && policy->needs().attention_received;
    state_rule.most_tokens = std::max(state_rule.most_tokens, job.most_tokens);
  }
  return state_rule;
}

CompletionCost CompletionTree::walk() {
  const auto started = std::chrono::steady_clock::now();
  Requests all(requests_.size());
  for (std::size_t request = 0; request < all.size(); ++request) all[request] = request;
  if (!all.empty()) {
    auto state = std::make_unique<RunState>(model_, settings_.block_size, state_rule(0, all));
    descend(std::move(state), 0, std::move(all));
  }
  cost_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return cost_;
}

// Rows are counted as if none had been dropped past a sliding window: a rule taken up too early is the same
// rule. What is generated may evict although the prompt did not.
std::map<CompletionTree::Branch, CompletionTree::Requests> CompletionTree::part(
    const RunState& state, std::size_t rule, const Requests& requests) const {
  std::map<Branch, Requests> branches;
  for (const std::size_t request : requests) {
    const Job& job = jobs_[request];
    const auto left = requests_[request].prompt_ids.subspan(static_cast<std::size_t>(state.position()));
    const auto next = left.first(std::min(left.size(), static_cast<std::size_t>(settings_.block_size)));
    const bool evicts = next.empty() || state.position() + std::ssize(next) > rules_[job.rule].budget;
    const std::size_t next_rule = rule == 0 && evicts ? job.rule : rule;
    branches[{{next.begin(), next.end()}, next_rule}].push_back(request);
  }
  return branches;
}

// Where all go on together, the state is theirs; it is copied only where they part.
void CompletionTree::descend(std::unique_ptr<RunState> state, std::size_t rule, Requests requests) {
  for (;;) {
    auto branches = part(*state, rule, requests);
    while (branches.size() > 1) {
      auto branch = branches.extract(branches.begin());
      const auto& [ids, branch_rule] = branch.key();
      auto forked = state->fork(state_rule(branch_rule, branch.mapped()));
      if (ids.empty()) {
        finish(std::move(forked), branch_rule, branch.mapped());
        continue;
      }
      run_prompt_block(*forked, ids, branch.mapped());
      descend(std::move(forked), branch_rule, std::move(branch.mapped()));
    }
    auto last = branches.extract(branches.begin());
    rule = last.key().second;
    requests = std::move(last.mapped());
    state->follow(state_rule(rule, requests));
    if (last.key().first.empty()) return finish(std::move(state), rule, requests);
    run_prompt_block(*state, last.key().first, requests);
  }
}

void CompletionTree::run_prompt_block(RunState& state, std::span<const std::int32_t> ids,
                                      const Requests& requests) {
  watch_.control.wait_for_turn();
  const std::int64_t first = state.position();
  if (first > 0) score(state.last_hidden(), ids.first(1), first - 1, requests);
  const at::Tensor hidden = state.run_block(ids);
  score(hidden, ids.subspan(1), first, requests);
  count(std::ssize(ids), requests);
}

// Of positions first, first + 1, …, which are followed by these ids: the logits that any request wants.
void CompletionTree::score(const at::Tensor& hidden, std::span<const std::int32_t> next_ids,
                           std::int64_t first, const Requests& requests) {
  const auto wanted_from = [&](std::size_t request) {  // of the next ids
    const std::int64_t from = requests_[request].score_from.value_or(jobs_[request].most_tokens);
    return std::clamp<std::int64_t>(from - first - 1, 0, std::ssize(next_ids));
  };
  std::int64_t skip = std::ssize(next_ids);
  for (const std::size_t request : requests) skip = std::min(skip, wanted_from(request));
  if (skip == std::ssize(next_ids)) return;
  const auto scores = log_probabilities(model_.transformer(), hidden.narrow(0, skip, hidden.size(0) - skip),
                                        next_ids.subspan(static_cast<std::size_t>(skip)), first + skip);
  for (const std::size_t request : requests)
    std::copy(scores.begin() + (wanted_from(request) - skip), scores.end(),
              std::back_inserter(jobs_[request].log_probabilities));
}

// Requests that are the same to the end are completed once.
void CompletionTree::finish(std::unique_ptr<RunState> state, std::size_t rule, const Requests& requests) {
  std::vector<Requests> different;
  for (const std::size_t request : requests) {
    const auto same = std::ranges::find_if(different, [&](const Requests& others) {
      return requests_[others.front()].continuation == requests_[request].continuation;
    });
    if (same != different.end())
      same->push_back(request);
    else
      different.push_back({request});
  }
  for (std::size_t i = 0; i + 1 < different.size(); ++i)
    complete(*state->fork(state_rule(rule, different[i])), different[i]);
  complete(*state, different.back());
}

void CompletionTree::complete(RunState& state, const Requests& requests) {
  const CompletionRequest& request = requests_[requests.front()];
  Completion completion;
  completion.n_prompt = std::ssize(request.prompt_ids);
  completion.rows_kept = state.mean_rows();
  const auto run_token = [&](std::int32_t id) {
    watch_.control.wait_for_turn();
    state.run_block({&id, 1});
    count(1, requests);
  };
  continue_text(model_, request.continuation, request.prompt_ids.back(), state, run_token, completion);
  const std::int64_t fed_back = std::max<std::int64_t>(0, std::ssize(completion.generated) - 1);
  progress_.tokens_done += (most_fed_back(request) - fed_back) * std::ssize(requests);
  tell_progress();
  for (const std::size_t index : requests) {
    completion.log_probabilities = std::move(jobs_[index].log_probabilities);
    watch_.on_done(index, completion);
  }
}

void CompletionTree::count(std::int64_t n_tokens, const Requests& requests) {
  cost_.tokens_asked += n_tokens * std::ssize(requests);
  cost_.tokens_run += n_tokens;
  progress_.tokens_done += n_tokens * std::ssize(requests);
  progress_.tokens_shared += n_tokens * (std::ssize(requests) - 1);
  tell_progress();
}

void CompletionTree::tell_progress() const {
  if (watch_.on_progress) watch_.on_progress(progress_);
}

}  // namespace keyscope::capture
