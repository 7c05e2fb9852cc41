#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "app/figures/figure.hpp"

namespace keyscope::validation {

// How much of a set of prompts a budget keeps, on average: (1/I) Σ min(1, N/L_i) over prompts of L_i tokens.
//   lengths: at least one, each at least 1; budget N >= 1
//   throws InvalidInput otherwise
//   source: KeyDiff (arXiv 2504.15364), Table 9
double mean_compression_ratio(std::span<const std::int64_t> lengths, std::int64_t budget);

// Prompts of [first, end) tokens.
struct LengthBin {
  std::int64_t first = 0, end = 0, n_prompts = 0;
};

// A histogram of lengths in at most 20 bins, whose width is 1, 2 or 5 times a power of ten; the first begins
// at a multiple of it (Table 8 of the paper).
//   lengths: as above
std::vector<LengthBin> bin_lengths(std::span<const std::int64_t> lengths);

// What is reported of a set of prompts. Quantiles as `analysis::quantiles` defines them.
struct PromptLengths {
  std::vector<std::int64_t> lengths;  // in the order of the file
  double mean = 0, median = 0, p95 = 0;
  std::int64_t least = 0, most = 0;
  std::vector<LengthBin> bins;
  std::vector<std::int64_t> budgets;
  std::vector<double> ratios;  // mean compression ratio of each budget
};
PromptLengths measure_lengths(std::vector<std::int64_t> lengths, std::vector<std::int64_t> budgets);

// The histogram, and where budgets were given, beside it the ratio against the budget: a curve over all
// budgets up to the longest prompt, with a mark at each of those given.
//   source: said in the caption: what was read
figures::Figure prompt_lengths_figure(const PromptLengths& lengths, const std::string& source);

}  // namespace keyscope::validation
