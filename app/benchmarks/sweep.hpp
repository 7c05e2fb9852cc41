#pragma once

// The combinations that a benchmark goes through, and the prompts that it reads.

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/policies/policy.hpp"
#include "app/benchmarks/benchmark.hpp"
#include "capture/inference/capture.hpp"

namespace keyscope::benchmarks {

// What is varied; every combination is run, but `none`, which has no budget, once for all budgets.
struct Sweep {
  std::vector<std::string> policies;  // as on the command line
  std::vector<std::int64_t> budgets, blocks, n_tokens;
  std::vector<capture::Schedule> schedules;
  std::int64_t generate = 0;
  std::int64_t repeat = 1;
  std::uint64_t seed = 0;
};

struct Case {
  std::string policy;
  analysis::PolicySpec spec;
  std::int64_t budget = 0;  // 0 for `none`
  std::int64_t block = 0;
  capture::Schedule schedule = capture::Schedule::kBlock;
  std::int64_t n_tokens = 0;

  std::string label() const;  // "keydiff N=1024 B=128"
};

//   throws UsageError on a policy that cannot be understood
std::vector<Case> cases_of(const Sweep& sweep);

// A row that says what was run, and no more.
Row row_of(const Case& benchmark_case);

// The case as a capture of the prompt's first tokens that records nothing unless it is given sinks.
//   throws UsageError where the prompt is shorter than the case wants
capture::CaptureOptions capture_options(const Case& benchmark_case, const std::vector<std::int32_t>& prompt,
                                        const Sweep& sweep);

// Ids drawn uniformly from the vocabulary: the same for the same seed, and of a shorter prompt the first
// ones.
std::vector<std::int32_t> random_prompt(std::int64_t n_tokens, std::int64_t vocab_size, std::uint64_t seed);

std::int64_t largest(const std::vector<std::int64_t>& values);

}  // namespace keyscope::benchmarks
