#pragma once

#include <filesystem>
#include <span>
#include <vector>

namespace keyscope::evaluation {

// Files as they are given, and the *.jsonl of folders among them, in order of name.
//   throws FileError where one is not there, or a folder has none
std::vector<std::filesystem::path> data_files(std::span<const std::filesystem::path> given);

}  // namespace keyscope::evaluation
