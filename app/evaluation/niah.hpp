#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/evaluation/evaluation.hpp"
#include "app/evaluation/task_report.hpp"
#include "app/figures/figure.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::evaluation {

// A needle in a haystack: length × depth × samples. Each sample has a haystack and distractors of its own,
// the same for all lengths and depths, so that prompts begin alike; each prompt has a needle of its own.
//   source: Kamradt, LLMTest_NeedleInAHaystack (2023); KeyDiff (arXiv 2504.15364), Figs. 6 and 19; several
//   keys: RULER (arXiv 2404.06654)
struct NiahTask {
  std::vector<std::int64_t> lengths;  // tokens of the whole prompt, special tokens and question included
  std::vector<double> depths;         // percent of the haystack, 0 to 100
  std::int64_t n_samples = 1;
  std::int64_t n_distractors = 0;
  std::int64_t n_digits = 7;  // of a value
  std::string needle = "The special magic number for {key} is: {value}.";
  std::string question = "\n\nAnswer from the text above:\nThe special magic number for {key} is:";
  std::string haystack_path;        // file or folder; empty: generated
  std::string keys_path;            // empty: cities
  bool skip_bad = false;            // rows of the keys' file
  std::int64_t max_new_tokens = 0;  // 0: those of the answer and 8 more

  //   throws UsageError on what cannot be: no length, a depth outside 0 to 100, either given twice, a
  //   template without {key} or {value}, fewer values than needles, a name or a template that is no UTF-8
  void check() const;
};

// What the task adds to the settings.
nlohmann::ordered_json niah_settings(const NiahTask& task);

// The prompts as they were built.
struct NiahExamples {
  std::vector<Example> examples;  // a sample's lengths and depths, then the next sample's
  std::int64_t most_short = 0;    // tokens by which a prompt falls short of its length at most
  double mean_short = 0;
  std::vector<std::string> bad_rows;  // that were skipped
};

// No two needles of a prompt have the same value.
//   throws UsageError as `check` does, on more distractors than there are keys and on a length with which
//   the answer does not fit into the model's context; FileError on files
NiahExamples niah_examples(const NiahTask& task, std::uint64_t seed, const capture::ModelConfig& model,
                           const tokenizer::Tokenizer& tokenizer);

// "recall" and "exact", as lookup_scores has them.
Scores score_lookup(const Example& example, const capture::Completion& completion);

// A row of JSON cells for every length and depth.
std::vector<nlohmann::ordered_json> niah_cells(const NiahTask& task);

// "niah-recall": recall by length and depth, a heatmap for every policy, budget and block, on one scale from
// 0 to
// 1. "niah-difference": the same less that of the full cache at that block size, from -1 to 1, which is left
// out where there is nothing but the full cache.
//   source: KeyDiff (arXiv 2504.15364), Figs. 6 and 19
std::vector<figures::Figure> niah_figures(const TaskReport& report, const NiahTask& task);

// What a task's figures are called, in the order in which they are made; none for a task that draws none.
//   compared: whether anything is compared with the full cache
std::vector<std::string_view> figure_names(std::string_view task, bool compared);

// Both compare words as `normalised_words` makes them of texts: lower case, no punctuation, no articles.

// 1 where the answer, its words one space apart, occurs in the output, be it in the middle of a longer word;
// else the share of its words that stand there anywhere. 1 for an answer without words.
double lookup_recall(std::string_view output, std::string_view answer);

// 1 where the first words of the output's first line that has any are the answer's, else 0.
double lookup_exact(std::string_view output, std::string_view answer);

}  // namespace keyscope::evaluation
