#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "app/evaluation/task_data.hpp"

namespace keyscope::commands {

// The options of evaluations that read a benchmark's rows: where they are, how many, and as what they are
// asked.
class EvalDataOptions {
 public:
  void add_to(CLI::App& command, const std::string& data_help);

  std::vector<std::filesystem::path> files() const { return {data_.begin(), data_.end()}; }
  evaluation::ChatUse chat() const;
  const std::optional<std::int64_t>& rows() const { return rows_; }
  bool skip_bad() const { return skip_bad_; }

 private:
  std::vector<std::string> data_;
  std::optional<std::int64_t> rows_;
  bool chat_ = false, no_chat_ = false, skip_bad_ = false;
};

}  // namespace keyscope::commands
