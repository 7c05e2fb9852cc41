#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace keyscope {

// A file of results that a script in tests/analysis/goldens/ wrote.
nlohmann::json read_goldens(const std::string& name);

// One section of it, by value, so that a loop may run over the result itself.
//   throws where there is no such section, or an empty one
nlohmann::json read_goldens(const std::string& name, const std::string& section);

}  // namespace keyscope
