#pragma once

#include <filesystem>

#include <nlohmann/json_fwd.hpp>

namespace keyscope::commands {

// What a model folder, a recording or a figure file holds; weights, keys and queries are not read.
// `kind` is "model", "recording" or "figures".
//   throws FileError where it is none of these, or damaged
nlohmann::ordered_json inspect_path(const std::filesystem::path& path);

}  // namespace keyscope::commands
