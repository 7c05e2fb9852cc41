#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/adoption/adoption.hpp"
#include "app/evaluation/evaluation.hpp"
#include "capture/model/model.hpp"

namespace keyscope::adoption {

// One task of a report: its examples and how they are scored.
struct Task {
  std::string name;    // "niah"; also that of its folder
  std::string metric;  // "recall", for people
  std::string score;   // the name among Scores
  TaskKind kind = TaskKind::kScore;
  std::vector<evaluation::Example> examples;
  evaluation::Scorer scorer;
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();  // what its examples depend on
  std::vector<std::string> bad_rows = {};                              // that were skipped, and why
  std::vector<std::string> data_sets = {};  // that of each example; empty: all are of one
};

// The grid points of `none` and of the candidates, as an evaluation of one block size has them: `none` first.
//   results: of all examples, each under all grid points in order
struct TaskResult {
  TaskOutcome outcome;
  std::vector<TaskLoss> losses;  // of the candidates
};
TaskResult task_result(const Task& task, std::span<const evaluation::ExampleResult> results,
                       std::size_t n_candidates, const analysis::BootstrapOptions& bootstrap);

// Which tasks a report asks, and how much of each.
struct TaskListOptions {
  std::vector<std::string> names;  // of task_names(); empty: those that need no files
  std::int64_t examples = 200;     // of each task, or as many as its data have
  std::int64_t length = 0;         // the longest prompt made here, in tokens; 0: half the model's context
  std::vector<std::filesystem::path> texts, longbench, math500, ruler;
  bool skip_bad = false;  // go on without rows of those files that cannot be used
  std::uint64_t seed = 0;
};

// "niah", "niah-distractors", "phonebook", "perplexity", "longbench", "math500", "ruler".
std::vector<std::string_view> task_names();

// The tasks asked for, and what their scorers need.
class TaskList {
 public:
  //   model: must outlive the list
  //   throws UsageError on a name that there is not or is given twice, on files of a task that is not asked
  //   and a task without its files; else as the tasks' own reading does
  TaskList(const TaskListOptions& options, const capture::Model& model);
  ~TaskList();
  TaskList(const TaskList&) = delete;
  TaskList& operator=(const TaskList&) = delete;

  const std::vector<Task>& tasks() const { return tasks_; }

 private:
  struct Sets;
  void add(std::string_view name, const TaskListOptions& options, const capture::Model& model);

  std::unique_ptr<Sets> sets_;
  std::vector<Task> tasks_;
};

}  // namespace keyscope::adoption
