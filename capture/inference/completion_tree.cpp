#include "capture/inference/completion_tree.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "analysis/policies/registry.hpp"
#include "capture/recording/run_plan.hpp"

namespace keyscope::capture {

std::int64_t most_tokens(const CompletionRequest& request) {
  return std::ssize(request.prompt_ids) + std::max<std::int64_t>(0, request.continuation.max_new_tokens - 1);
}

CompletionTree::CompletionTree(const CompletionSettings& settings,
                               std::span<const CompletionRequest> requests)
    : settings_(settings), requests_(requests) {
  rules_.emplace_back();
  for (const CompletionRequest& request : requests) request_rules_.push_back(rule_of(request));
}

// A policy that will never have more rows than its budget evicts nothing.
std::size_t CompletionTree::rule_of(const CompletionRequest& request) {
  if (request.policy.name == "none" || request.budget >= most_tokens(request)) return 0;
  const auto spec = analysis::with_defaults(request.policy, settings_.seed);
  const auto [found, is_new] = rule_indices_.try_emplace(
      {spec.name + recording::parameters_json(spec.options), request.budget}, rules_.size());
  if (is_new) rules_.push_back({analysis::make_policy(request.policy, settings_.seed), request.budget});
  return found->second;
}

StateRule CompletionTree::state_rule(const Course& course) const {
  StateRule state_rule{rules_[course.rule].policy.get(), rules_[course.rule].budget, false, 0};
  for (const std::size_t request : course.requests) {
    const analysis::Policy* policy = rules_[request_rules_[request]].policy.get();
    state_rule.counts_attention |= policy != nullptr && policy->needs().attention_received;
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
}

// No ids where the prompt is over.
std::map<std::vector<std::int32_t>, RequestIndices> CompletionTree::by_next_ids(
    std::int64_t position, const RequestIndices& requests) const {
  std::map<std::vector<std::int32_t>, RequestIndices> branches;
  for (const std::size_t request : requests) {
    const auto left = requests_[request].prompt_ids.subspan(static_cast<std::size_t>(position));
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
    rules[position > rules_[own].budget ? own : 0].push_back(request);
  }
  std::vector<Course> courses;
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
    steps.end();
  }
}

}  // namespace keyscope::capture
