#pragma once

#include <filesystem>

namespace keyscope::recording {

// Checks, before long work, that a file can be made at `path` later on, and gives its place: `path` itself,
// or what it links to, so that replacing a link's target leaves the link.
//   replace: whether an existing file may be replaced
//   throws FileError where it exists and may not be replaced, is no regular file (a folder, a device, a
//   pipe), or its folder does not exist
std::filesystem::path output_path(const std::filesystem::path& path, bool replace);

// The folder that holds `path`; "." where it names none.
std::filesystem::path folder_of(const std::filesystem::path& path);

}  // namespace keyscope::recording
