#include "tests/support/goldens.hpp"

#include <stdexcept>

#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"

namespace keyscope {

nlohmann::json read_goldens(const std::string& name) {
  const std::string path = std::string(KEYSCOPE_SOURCE_DIR) + "/tests/analysis/goldens/" + name;
  return parse_json(read_file(path));
}

nlohmann::json read_goldens(const std::string& name, const std::string& section) {
  nlohmann::json found = read_goldens(name).at(section);
  if (found.empty()) throw std::runtime_error(name + ": section " + section + " is empty");
  return found;
}

}  // namespace keyscope
