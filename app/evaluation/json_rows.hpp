#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace keyscope::evaluation {

// What became of a file's rows.
struct ReadRows {
  std::int64_t n_rows = 0;            // that were taken
  std::vector<std::string> bad = {};  // what was wrong with the others, each naming file and line
};

// Hands a file's JSON objects, one a line, to `take`, which throws FileError or InvalidInput where it cannot
// use one; empty lines are no rows.
//   where: file and line, for its messages
//   skip_bad: go on without rows that are no JSON object or cannot be used
//   throws FileError where the file cannot be read or no row is left, and, unless they are skipped, for bad
//   rows: it names the first in full and says how many there are and on which lines
ReadRows read_json_rows(const std::filesystem::path& path, bool skip_bad,
                        const std::function<void(const nlohmann::json& row, const std::string& where)>& take);

// The same of a file's lines as they are, without white space at their ends.
ReadRows read_lines(const std::filesystem::path& path, bool skip_bad,
                    const std::function<void(const std::string& line, const std::string& where)>& take);

}  // namespace keyscope::evaluation
