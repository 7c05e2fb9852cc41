#include "app/adoption/diagnosis.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/validation/summary.hpp"

namespace keyscope::adoption {
namespace {

using analysis::BootstrapMean;

class Means {
 public:
  Means(std::span<const validation::PromptRecord> records, const analysis::BootstrapOptions& options)
      : records_(records), options_(options) {}

  // Over prompts, of the mean over heads.
  BootstrapMean of(std::string_view quantity, const std::string& run) const {
    return analysis::bootstrap_mean(validation::samples_of(records_, validation::quantity(quantity), run),
                                    options_);
  }

  Retained retained(const std::string& run, bool evicts) const {
    Retained found{of("mean_pairwise_cosine", run), of("log_volume_nats", run), {}, {}, {}};
    if (evicts) {
      found.cosine_change = analysis::bootstrap_mean(
          validation::differences_of(records_, validation::quantity("mean_pairwise_cosine"), run, "none"),
          options_);
      found.attention_mass_kept = of("attention_mass_kept", run);
      found.kl_nats = of("kl_nats", run);
    }
    return found;
  }

 private:
  std::span<const validation::PromptRecord> records_;
  const analysis::BootstrapOptions& options_;
};

std::vector<const evaluation::Example*> short_examples(const Task& task, std::int64_t max_tokens) {
  std::vector<const evaluation::Example*> found;
  for (const evaluation::Example& example : task.examples)
    if (max_tokens == 0 || std::ssize(example.prompt_ids) <= max_tokens) found.push_back(&example);
  return found;
}

std::int64_t fewest_tokens(std::span<const Task> tasks) {
  auto fewest = std::numeric_limits<std::int64_t>::max();
  for (const Task& task : tasks)
    for (const evaluation::Example& example : task.examples)
      fewest = std::min(fewest, std::int64_t{std::ssize(example.prompt_ids)});
  return fewest;
}

}  // namespace

std::vector<validation::Prompt> choose_prompts(std::span<const Task> tasks, const PromptChoice& choice) {
  std::vector<validation::Prompt> chosen;
  std::set<std::vector<std::int32_t>> seen;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const auto examples = short_examples(tasks[t], choice.max_tokens);
    // Of what is left, a share for each of the tasks that are left.
    const std::size_t share = (choice.most - chosen.size() + tasks.size() - t - 1) / (tasks.size() - t);
    const std::size_t n = std::min(share, examples.size());
    for (std::size_t i = 0; i < n; ++i) {
      const evaluation::Example& example = *examples[(2 * i + 1) * examples.size() / (2 * n)];
      if (!seen.insert(example.prompt_ids).second) continue;
      validation::Prompt& prompt = chosen.emplace_back();
      prompt.name = fmt::format("{}/{}", tasks[t].name, example.id);
      prompt.ids = example.prompt_ids;
      prompt.line = std::ssize(chosen);
    }
  }
  if (chosen.empty() && choice.most > 0)
    throw UsageError(
        fmt::format("--diagnose-length {}: all prompts are longer; expected at least {}, or "
                    "--diagnose 0",
                    choice.max_tokens, fewest_tokens(tasks)));
  return chosen;
}

void add_diagnosis(Adoption& adoption, std::span<const BudgetRecords> all) {
  const Means full(all.front().records, adoption.bootstrap);
  adoption.n_diagnosed = std::ssize(all.front().records);
  adoption.n_diagnosed_tokens = 0;
  for (const validation::PromptRecord& record : all.front().records)
    adoption.n_diagnosed_tokens += record.n_tokens;
  adoption.concentration = {full.of("attention_top_share", "none"), full.of("attention_gini", "none"),
                            full.of("attention_entropy_nats", "none"), full.of("sink_metric", "none")};
  adoption.geometry = {full.of("spearman", "none"), full.of("key_query_mean_cosine", "none")};
  adoption.full_retained = full.retained("none", false);
  adoption.retained.assign(adoption.candidates.size(), {});
  for (std::size_t i = 0; i < adoption.candidates.size(); ++i) {
    const Candidate& candidate = adoption.candidates[i];
    const auto found = std::ranges::find(all, candidate.budget, &BudgetRecords::budget);
    if (found == all.end()) continue;
    const auto policy = std::ranges::find(found->policies, candidate.policy);
    if (policy == found->policies.end() || found->records.empty()) continue;
    const auto run = static_cast<std::size_t>(policy - found->policies.begin()) + 1;
    const Means means(found->records, adoption.bootstrap);
    adoption.retained[i] = means.retained(found->records.front().runs[run].run, true);
  }
}

}  // namespace keyscope::adoption
