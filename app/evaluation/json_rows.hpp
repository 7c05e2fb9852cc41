#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace keyscope::evaluation {

// Files whose rows are read one after another.
using Paths = std::span<const std::filesystem::path>;

// Takes a row; of lines it says whether they are rows.
//   where: file and line, for its messages
//   throws FileError or InvalidInput where it cannot use it
using TakeLine = std::function<bool(const std::string& line, const std::string& where)>;
using TakeJson = std::function<void(const nlohmann::json& row, const std::string& where)>;

// What became of the rows.
struct ReadRows {
  std::int64_t n_rows = 0;            // that were taken
  std::vector<std::string> bad = {};  // what was wrong with the others, each naming file and line
};

// Hands JSON objects, one a line, to `take`; empty and blank lines are no rows.
//   skip_bad: go on without rows that are no JSON object or cannot be used
//   throws FileError where a file cannot be read or has no row, where none of all can be used, and, unless
//   they are skipped, for bad rows: it names the first in full and says how many there are in all files and
//   on which lines
ReadRows read_json_rows(Paths paths, bool skip_bad, const TakeJson& take);

// The same of lines as they are, but for empty ones.
ReadRows read_lines(Paths paths, bool skip_bad, const TakeLine& take);

}  // namespace keyscope::evaluation
