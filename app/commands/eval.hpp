#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/commands/cli_fwd.hpp"
#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "app/commands/study_cells.hpp"
#include "app/evaluation/evaluation.hpp"
#include "app/evaluation/example.hpp"
#include "app/evaluation/task_data.hpp"
#include "app/figures/figure.hpp"
#include "capture/model/model.hpp"

namespace keyscope::commands {

// What all evaluations have in common on the command line.
struct EvalOptions {
  ModelChoice model;
  std::string out;
  std::vector<std::string> policies, budgets{"25%"};
  std::vector<std::int64_t> blocks{128};
  std::vector<std::string> figures;
  std::uint64_t seed = 0;
  std::string json;
  std::string cache_dtype = "model", cache_scales;
  bool force = false, quiet = false, dry_run = false;
  std::int64_t record = 0;  // examples that are recorded
  StudyChoice study;

  void add_to(CLI::App& command);

  JsonTarget json_target() const { return {json, force}; }

  // The grid that was asked for.
  //   task_settings: what the task's scores depend on beside it
  //   throws UsageError on a grid that cannot be
  evaluation::Settings settings(const std::string& task, const nlohmann::ordered_json& task_settings) const;

  //   throws as Model::load does, and FileError where the model has no tokenizer
  std::shared_ptr<const capture::Model> load_model() const;
};

// The way of every `eval` task from the command line to its results.
// What a task asks of a model.
struct EvalExamples {
  std::vector<evaluation::Example> examples;
  evaluation::Scorer scorer;
  std::vector<std::string> notes = {};     // lines that are printed above the table
  std::vector<std::string> bad_rows = {};  // that were skipped, and why
};

// What came of it.
struct EvalOutcome {
  const evaluation::Settings& settings;
  const EvalExamples& asked;
  const evaluation::Evaluation& evaluation;
};

// What the task says of that.
struct EvalReport {
  std::string table;
  nlohmann::ordered_json json;  // all that results.json holds, and --json beside the cost
  std::vector<figures::Figure> figures = {};
};

struct EvalTask {
  std::string name;                 // "niah"
  nlohmann::ordered_json settings;  // what its scores depend on beside the grid
  std::function<EvalExamples(const capture::Model&)> examples;
  std::function<EvalReport(const EvalOutcome&)> report;
};

// Loads the model, makes the examples, runs what is missing, prints the table and writes what was asked for:
// --json, --figure, and into OUT results.json and cost.json, every figure (its name begins with the task's)
// as png, svg and pdf, and all of them as TASK.h5, and the recordings that --record asks for. Ctrl-C ends it
// within a block; with --dry-run nothing is run or written.
//   throws as its parts do, Cancelled after Ctrl-C; nothing runs before all outputs were found to be writable
void run_eval(const EvalOptions& options, const EvalTask& task);

// One line: how many results there are, what they took, and how much of it was shared.
std::string cost_line(const evaluation::Evaluation& evaluation);

// What is done with a task once its command line was read: it is run, or kept for later.
using TakeEval = std::function<void(const EvalOptions& options, const EvalTask& task)>;

// Each adds a task to `eval`.
void add_eval_niah(CLI::App& eval, const TakeEval& take);
void add_eval_phonebook(CLI::App& eval, const TakeEval& take);
void add_eval_longbench(CLI::App& eval, const TakeEval& take);
void add_eval_math500(CLI::App& eval, const TakeEval& take);
void add_eval_perplexity(CLI::App& eval, const TakeEval& take);
void add_eval_ruler(CLI::App& eval, const TakeEval& take);
void add_eval_tasks(CLI::App& eval, const TakeEval& take);  // all of them

// Whether a benchmark's prompts become a user's turn.
class EvalChatOptions {
 public:
  void add_to(CLI::App& command);

  evaluation::ChatUse use() const;

 private:
  bool chat_ = false, no_chat_ = false;
};

// The options of evaluations that read a benchmark's rows: where they are, how many, and as what they are
// asked.
class EvalDataOptions {
 public:
  void add_to(CLI::App& command, const std::string& data_help);

  std::vector<std::filesystem::path> files() const { return {data_.begin(), data_.end()}; }
  evaluation::ChatUse chat() const { return chat_.use(); }
  const std::optional<std::int64_t>& rows() const { return rows_; }
  bool skip_bad() const { return skip_bad_; }

 private:
  std::vector<std::string> data_;
  std::optional<std::int64_t> rows_;
  EvalChatOptions chat_;
  bool skip_bad_ = false;
};

// A flag that goes on without bad rows.
void add_skip_bad_rows(CLI::App& command, bool& skip_bad);

}  // namespace keyscope::commands
