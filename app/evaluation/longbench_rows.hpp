#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/evaluation/longbench_tasks.hpp"

namespace keyscope::evaluation {

// One row of LongBench's own JSON lines.
struct LongBenchRow {
  const LongBenchTask* task = nullptr;
  std::string id;  // its "_id"; empty where it has none
  std::string input;
  std::string context;
  std::vector<std::string> answers;      // at least one
  std::vector<std::string> all_classes;  // of trec; else empty
  std::optional<std::int64_t> length;    // in words, as LongBench counted them
};

// Reads "context", "input", "answers" and "dataset", "all_classes" where the task has classes, "_id" and
// "length" where they are there.
//   default_task: the data set of a row that names none; may be empty
//   where: file and line, for messages
//   throws FileError naming field, what was found and what was expected: also on a data set that is not among
//   longbench_tasks, and on answers that the task's metric cannot score
LongBenchRow read_longbench_row(const nlohmann::json& row, std::string_view default_task,
                                const std::string& where);

}  // namespace keyscope::evaluation
