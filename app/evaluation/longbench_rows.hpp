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

}  // namespace keyscope::evaluation
