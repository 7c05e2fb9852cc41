#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace keyscope::results {

// What differs, a sentence each: "block is 64 there and 128 here".
//   there, here: objects; what `here` does not name is not looked at
std::vector<std::string> setting_differences(const nlohmann::ordered_json& there,
                                             const nlohmann::ordered_json& here);

}  // namespace keyscope::results
