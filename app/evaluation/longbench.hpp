#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/evaluation/task_data.hpp"
#include "app/evaluation/example.hpp"
#include "app/evaluation/longbench_rows.hpp"
#include "capture/model/model.hpp"

namespace keyscope::evaluation {

// Which rows are asked, and how.
struct LongBenchOptions {
  std::vector<std::filesystem::path> data;  // files of JSON lines, or folders of *.jsonl
  std::string task;                         // of rows that name no data set; may be empty
  std::optional<std::int64_t> max_tokens;   // of a prompt; none: the model's context less what is generated
  bool cut = true;                          // the middle of longer prompts; else they are bad rows
  ChatUse chat = ChatUse::kIfThere;         // for the tasks that are asked as chat
  std::optional<std::int64_t> rows;         // of each task, its first
  bool skip_bad = false;
};

struct LongBenchSet {
  std::vector<LongBenchRow> rows;  // an example each; without their contexts, which the prompts hold
  std::vector<Example> examples;
  std::vector<std::string> bad;  // rows that were left out, and why
  std::int64_t n_cut = 0;
};

// Reads the data and makes every row's prompt for the model. Of rows behind the first of their task that are
// asked for, nothing but the data set is looked at. Examples end as the reference's generation does:
// samsum's also with a new line, which they never begin with.
//   throws FileError as read_json_rows, where a folder has no *.jsonl, two rows of a task have one "_id", a
//   task has rows of LongBench and of LongBench-E, or the model has no tokenizer; UsageError on a task that
//   there is not
LongBenchSet read_longbench(const LongBenchOptions& options, const capture::Model& model);

// {"score": 0.5}: of the generated ids' text without special tokens.
//   set, tokenizer: must outlive the scorer
Scorer longbench_scorer(const LongBenchSet& set, const tokenizer::Tokenizer& tokenizer);

// Every option that the scores depend on, for the settings.
nlohmann::ordered_json longbench_settings(const LongBenchOptions& options);

}  // namespace keyscope::evaluation
