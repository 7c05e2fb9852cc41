#include "app/commands/policy_list.hpp"

#include <sstream>

namespace keyscope::commands {
namespace {

bool is_option(const std::string& part) {
  const auto equals = part.find('=');
  return equals != std::string::npos && part.find(':') > equals;
}

}  // namespace

std::vector<std::string> split_policies(const std::vector<std::string>& words) {
  std::vector<std::string> policies;
  for (const std::string& word : words) {
    bool first = true;  // an option belongs to a policy of its own word
    std::istringstream parts(word);
    for (std::string part; std::getline(parts, part, ','); first = false) {
      if (!first && is_option(part))
        policies.back() += "," + part;
      else
        policies.push_back(part);
    }
  }
  return policies;
}

}  // namespace keyscope::commands
