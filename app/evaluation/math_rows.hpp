#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace keyscope::evaluation {

// One problem of MATH-500 (or another set in its layout), as a row of JSON lines.
struct MathRow {
  std::string id;  // "unique_id"; empty where it has none
  std::string problem;
  std::string answer;                 // "answer", or else what "solution" boxes
  std::string subject;                // empty where it has none
  std::optional<std::int64_t> level;  // 1 to 5 in MATH
};

//   where: file and line, for messages
//   throws FileError naming field, what was found and what was expected
MathRow read_math_row(const nlohmann::json& row, const std::string& where);

// The problem in the words that ask for it: `format` with every {problem} replaced.
std::string math_prompt(std::string_view format, std::string_view problem);

}  // namespace keyscope::evaluation
