#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/adoption/measurement.hpp"
#include "app/adoption/tasks.hpp"
#include "app/benchmarks/paired_ratio.hpp"
#include "app/commands/cli_fwd.hpp"
#include "app/commands/options.hpp"
#include "app/commands/study_cells.hpp"
#include "app/evaluation/example.hpp"

namespace keyscope::commands {

// Which tasks are asked, and of which files.
struct TaskChoice {
  std::int64_t examples;
  std::vector<std::string> names = {}, texts = {}, longbench = {}, math500 = {}, ruler = {};
  std::int64_t length = 0;
  bool skip_bad = false;

  // Without --text.
  //   all: the names that there are
  void add_to(CLI::App& command, const std::string& all);
  adoption::TaskListOptions options(std::uint64_t seed) const;
};

// What `report` was asked for.
struct ReportArguments {
  ModelChoice model;
  std::string out;
  TaskChoice tasks{.examples = 200};
  std::vector<std::string> policies{"keydiff", "h2o", "snapkv", "tova", "sink", "l2norm", "random"};
  std::vector<std::string> budgets{"25%", "50%"};
  std::int64_t block = 128;
  double tolerance_points = 2;
  std::int64_t repeat = benchmarks::kLeastRounds;
  adoption::PromptChoice diagnosed;
  std::uint64_t seed = 0;
  std::string json;
  bool force = false;
  bool quiet = false;
  StudyChoice study = {};
};

void add_report_options(CLI::App& command, ReportArguments& arguments);

// Without task and model.
//   throws UsageError on a policy or a budget that cannot be
evaluation::Settings report_settings(const ReportArguments& arguments);

}  // namespace keyscope::commands
