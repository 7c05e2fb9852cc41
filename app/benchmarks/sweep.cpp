#include "app/benchmarks/sweep.hpp"

#include <algorithm>
#include <random>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "analysis/policies/registry.hpp"

namespace keyscope::benchmarks {

std::string Case::label() const {
  return budget > 0 ? fmt::format("{} N={} B={}", policy, budget, block)
                    : fmt::format("{} B={}", policy, block);
}

std::vector<Case> cases_of(const Sweep& sweep) {
  std::vector<Case> cases;
  for (const std::int64_t n_tokens : sweep.n_tokens)
    for (const std::int64_t block : sweep.blocks)
      for (const capture::Schedule schedule : sweep.schedules)
        for (const std::string& policy : sweep.policies) {
          const analysis::PolicySpec spec = analysis::parse_policy(policy);
          const bool evicts = spec.name != "none";
          for (const std::int64_t budget : evicts ? sweep.budgets : std::vector<std::int64_t>{0})
            cases.push_back({policy, spec, budget, block, schedule, n_tokens});
        }
  return cases;
}

Row row_of(const Case& benchmark_case) {
  Row row;
  row.policy = benchmark_case.policy;
  if (benchmark_case.budget > 0) row.budget = benchmark_case.budget;
  row.block = benchmark_case.block;
  row.schedule = benchmark_case.schedule == capture::Schedule::kLayer ? "layer" : "block";
  row.n_tokens = benchmark_case.n_tokens;
  return row;
}

capture::CaptureOptions capture_options(const Case& benchmark_case, const std::vector<std::int32_t>& prompt,
                                        const Sweep& sweep) {
  if (static_cast<std::int64_t>(prompt.size()) < benchmark_case.n_tokens)
    throw UsageError(fmt::format("--tokens {}: the prompt has {}", benchmark_case.n_tokens, prompt.size()));
  capture::CaptureOptions options;
  options.prompt_ids.assign(prompt.begin(), prompt.begin() + benchmark_case.n_tokens);
  options.policies = {benchmark_case.spec};
  options.budget = benchmark_case.budget;
  options.block_size = benchmark_case.block;
  options.schedule = benchmark_case.schedule;
  options.generate = sweep.generate;
  options.ignore_eos = true;  // as many tokens for every policy
  options.seed = sweep.seed;
  return options;
}

// The remainder is the same everywhere, which the library's distributions are not.
std::vector<std::int32_t> random_prompt(std::int64_t n_tokens, std::int64_t vocab_size, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(n_tokens));
  for (std::int32_t& id : ids)
    id = static_cast<std::int32_t>(draw() % static_cast<std::uint64_t>(vocab_size));
  return ids;
}

std::int64_t largest(const std::vector<std::int64_t>& values) { return std::ranges::max(values); }

}  // namespace keyscope::benchmarks
