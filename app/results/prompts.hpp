#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/figures/figure.hpp"
#include "capture/model/config.hpp"
#include "capture/model/model.hpp"
#include "capture/recording/recording_layout.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::results {

// One prompt of a prompts file.
struct Prompt {
  std::string name;               // as the file gives it, else "line 3"
  std::vector<std::int32_t> ids;  // at least one
  std::string beginning;          // the first words, for people; empty where there is no tokenizer
  std::int64_t line = 0;          // from 1
};

// Reads a file with a JSON object a line: {"prompt": "text"} or {"ids": [1, 80, 147]}, either with a "name";
// other fields are left alone. Text is tokenised as `capture --prompt` does it.
//   tokenizer: may be null, then only "ids" works
//   max_tokens: what is longer is cut
//   throws FileError naming file, line, what was found and what was expected, where the file or a line of it
//   cannot be read, a prompt is empty, longer than the model's context or has ids that the model has not, and
//   where two lines give the same tokens, which would count twice
std::vector<Prompt> read_prompts(const std::filesystem::path& path, const capture::ModelConfig& model,
                                 const tokenizer::FolderTokenizer& tokenizer,
                                 std::optional<std::int64_t> max_tokens);

// Where figures of many prompts come from: the model, and the tokens of all prompts, one after another.
//   provenance: as it is; the SHA-256 of the ids is added to it
recording::Origin prompts_origin(const capture::Model& model, const std::string& model_name,
                                 std::span<const Prompt> prompts, recording::Provenance provenance);

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

}  // namespace keyscope::results
