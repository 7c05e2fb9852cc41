#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/evaluation/evaluation.hpp"
#include "app/evaluation/task_report.hpp"
#include "app/figures/figure.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::evaluation {

// Looking up one entry of a phone book, by the number of entries. Every sample draws its names, numbers and
// the one that is asked for.
//   source: KeyDiff (arXiv 2504.15364), Table 17; Jelassi et al., Repeat After Me (arXiv 2402.01032)
struct PhonebookTask {
  std::vector<std::int64_t> entries;
  std::int64_t n_samples = 1;
  std::int64_t n_digits = 4;
  std::string head = "Phone book:\n";
  std::string entry = "{key}: {value}\n";
  std::string question = "\nLook up:\n{key}:";
  std::string names_path;           // empty: first names, or pairs of them in larger books
  bool skip_bad = false;            // rows of the names' file
  std::int64_t max_new_tokens = 0;  // 0: those of the answer and 8 more
};

// What the task adds to the settings.
nlohmann::ordered_json phonebook_settings(const PhonebookTask& task);

struct PhonebookExamples {
  std::vector<Example> examples;
  std::vector<std::string> bad_rows;  // that were skipped
};

// A sample's books of all sizes, then the next sample's: a book begins as the larger ones of its sample do,
// but for its question. Scored by `score_lookup`.
//   throws UsageError on what cannot be: no entries, more entries than names, a number of them twice, a
//   template without its placeholder, a name or a template that is no UTF-8, a book beyond the model's
//   context; FileError on the file of names
PhonebookExamples phonebook_examples(const PhonebookTask& task, std::uint64_t seed,
                                     const capture::ModelConfig& model,
                                     const tokenizer::Tokenizer& tokenizer);

// A row of JSON cells for every number of entries.
std::vector<nlohmann::ordered_json> phonebook_cells(const PhonebookTask& task);

// "phonebook": the share of exact answers against the number of entries, with its intervals; a curve for
// every policy, budget and block.
//   source: KeyDiff (arXiv 2504.15364), Table 17
figures::Figure phonebook_figure(const TaskReport& report, const PhonebookTask& task);

}  // namespace keyscope::evaluation
