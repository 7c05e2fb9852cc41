#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/evaluation/example.hpp"
#include "app/evaluation/task_data.hpp"
#include "capture/model/model.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::evaluation {

// LongBench's English tasks (arXiv 2308.14508): what a model is asked, how long it may answer, and what
// scores the answer.
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

// One row of LongBench's own JSON lines.
struct LongBenchRow {
  const LongBenchTask* task = nullptr;
  std::string dataset;  // "qasper", or "qasper_e" of LongBench-E
  std::string id;       // its "_id"; empty where it has none
  std::string input;
  std::string context;
  std::vector<std::string> answers;      // at least one
  std::vector<std::string> all_classes;  // of trec; else empty
  std::optional<std::int64_t> length;    // in words, as LongBench counted them
};

// The data set of a row, which is one of longbench_tasks.
//   default_task: that of a row that names none; may be empty
//   where: file and line, for messages
//   throws FileError naming field, what was found and what was expected
std::string longbench_dataset(const nlohmann::json& row, std::string_view default_task,
                              const std::string& where);

// Reads "context", "input", "answers" and "dataset", "all_classes" where the task has classes, "_id" and
// "length" where they are there.
//   throws FileError as longbench_dataset, and on answers that the task's metric cannot score
LongBenchRow read_longbench_row(const nlohmann::json& row, std::string_view default_task,
                                const std::string& where);

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

// The task's prompt with a row's context and input in it, whatever braces these hold.
std::string longbench_text(const LongBenchTask& task, std::string_view context, std::string_view input);

// The text of the first and the last floor(max_tokens / 2) ids, each half decoded by itself and without
// special tokens: what LongBench leaves of a prompt that is too long. Where a cut goes through a character,
// its bytes become U+FFFD.
//   max_tokens: at least 2, less than there are ids
std::string without_middle(const tokenizer::Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                           std::int64_t max_tokens);

struct LongBenchPrompt {
  std::vector<std::int32_t> ids;
  std::int64_t n_whole = 0;  // tokens of the text before anything was cut
  bool cut = false;
};

// How a prompt is made to fit.
struct LongBenchLimits {
  std::int64_t max_tokens = 0;   // longer texts lose their middle
  std::int64_t most_tokens = 0;  // of the prompt as the model gets it; at least max_tokens
};

// The ids of a task's text as the reference makes them: text, ids, cut in the middle, text again, and ids
// again of that text in its chat template. Cut text is not always as many tokens as were left of it, since
// words part elsewhere at the seam, and a template adds its own; where that is more than `most_tokens`, the
// middle is cut again by as many as are too many.
//   encode: the ids that the model gets of a text, with special tokens or in its chat template
//   throws InvalidInput where even two tokens of the text are too many
LongBenchPrompt longbench_prompt(const tokenizer::Tokenizer& tokenizer, std::string_view text,
                                 const LongBenchLimits& limits,
                                 const std::function<std::vector<std::int32_t>(const std::string&)>& encode);

}  // namespace keyscope::evaluation
