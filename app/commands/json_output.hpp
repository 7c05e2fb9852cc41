#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace keyscope::commands {

//   throws FileError if `target` is an existing file and `force` is not given; "" and "-" never exist
void refuse_existing_json(const std::string& target, bool force);

// Writes to a file (whole or not at all) or, for "-", to stdout. Bytes that are no UTF-8 become U+FFFD.
//   throws FileError when it cannot be written
void write_json(const std::string& target, const nlohmann::ordered_json& json);

}  // namespace keyscope::commands
