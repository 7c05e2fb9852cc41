#include "capture/inference/completion_run.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "capture/inference/continuation.hpp"
#include "capture/inference/token_scores.hpp"

namespace keyscope::capture {

CompletionRun::CompletionRun(const Model& model, const CompletionSettings& settings,
                             std::span<const CompletionRequest> requests, const CompletionWatch& watch)
    : model_(model),
      settings_(settings),
      requests_(requests),
      watch_(watch),
      log_probabilities_(requests.size()) {
  for (const CompletionRequest& request : requests) progress_.tokens_total += most_tokens(request);
}

void CompletionRun::begin(const StateRule& rule) {
  states_.push_back(std::make_unique<RunState>(model_, settings_.block_size, rule));
}

void CompletionRun::fork(const StateRule& rule) { states_.push_back(newest().fork(rule)); }

void CompletionRun::follow(const StateRule& rule) { newest().follow(rule); }

void CompletionRun::end() { states_.pop_back(); }

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
                                        next_ids.subspan(static_cast<std::size_t>(skip)), first + skip);
  for (const std::size_t request : requests)
    std::copy(scores.begin() + (wanted_from(request) - skip), scores.end(),
              std::back_inserter(log_probabilities_[request]));
}

void CompletionRun::generate(const RequestIndices& requests) {
  const CompletionRequest& request = requests_[requests.front()];
  RunState& state = newest();
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
  const std::int64_t saved = most_tokens(request) - completion.n_prompt - fed_back;
  progress_.tokens_done += saved * std::ssize(requests);
  tell_progress();
  for (const std::size_t index : requests) {
    completion.log_probabilities = std::move(log_probabilities_[index]);
    watch_.on_done(index, completion);
  }
}

void CompletionRun::count(std::int64_t n_tokens, const RequestIndices& requests) {
  cost_.tokens_asked += n_tokens * std::ssize(requests);
  cost_.tokens_run += n_tokens;
  progress_.tokens_done += n_tokens * std::ssize(requests);
  progress_.tokens_shared += n_tokens * (std::ssize(requests) - 1);
  tell_progress();
}

void CompletionRun::tell_progress() const {
  if (watch_.on_progress) watch_.on_progress(progress_);
}

}  // namespace keyscope::capture
