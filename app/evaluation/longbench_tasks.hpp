#pragma once

// LongBench's English tasks (arXiv 2308.14508): what a model is asked, how long it may answer, and what
// scores the answer.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace keyscope::evaluation {

enum class LongBenchMetric {
  kTokenF1,
  kRougeL,
  kClassShare,
  kNumberShare,
  kParagraphShare,
  kCodeSimilarity,
};

// One task as its reference implementation runs it (github.com/THUDM/LongBench: dataset2prompt.json,
// dataset2maxlen.json, pred.py and eval.py). The prompt is the benchmark's definition, its misprints
// included.
struct LongBenchTask {
  std::string_view name;      // `dataset` of its rows
  std::string_view category;  // of the benchmark's tables
  LongBenchMetric metric;
  std::int64_t max_new_tokens;
  bool chat;                // asked as a user's turn where the model has a chat template
  bool first_line_only;     // the answer's first line is scored, without new lines in front of it
  bool one_line;            // generation ends with a new line, and does not begin with one
  std::string_view prompt;  // {context} and {input} are the row's
};

// All of them, in the order of the benchmark's tables.
std::span<const LongBenchTask> longbench_tasks();

// The task of a data set, also under its name in LongBench-E ("qasper_e"); null where there is none.
const LongBenchTask* find_longbench_task(std::string_view dataset);

// Why there is no such task, and which there are: a sentence without its end.
std::string no_longbench_task(std::string_view dataset);

}  // namespace keyscope::evaluation
