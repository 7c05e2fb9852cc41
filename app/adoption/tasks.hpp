#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/adoption/task.hpp"
#include "capture/model/model.hpp"

namespace keyscope::adoption {

// Which tasks a report asks, and how much of each.
struct TaskListOptions {
  std::vector<std::string> names;  // of task_names(); empty: those that need no files
  std::int64_t examples = 200;     // of each task, or as many as its data have
  std::int64_t length = 0;         // the longest prompt made here, in tokens; 0: half the model's context
  std::vector<std::filesystem::path> texts, longbench, math500;
  bool skip_bad = false;  // go on without rows of those files that cannot be used
  std::uint64_t seed = 0;
};

// "niah", "niah-distractors", "phonebook", "perplexity", "longbench", "math500".
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
