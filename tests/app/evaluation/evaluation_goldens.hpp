#pragma once

#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

namespace keyscope::evaluation {

// A section of a file in goldens/, which the script beside it wrote.
inline nlohmann::json read_goldens(const std::string& file_name, const char* section) {
  std::ifstream file(KEYSCOPE_EVALUATION_GOLDENS "/" + file_name);
  return nlohmann::json::parse(file).at(section);
}

}  // namespace keyscope::evaluation
