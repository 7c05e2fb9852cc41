#pragma once

#include <filesystem>

namespace keyscope::window {

// Saves the bound framebuffer as a PNG; the file appears under its name when it is complete.
//   replace: whether an existing file may be replaced
//   throws FileError where it cannot be written
void save_screenshot(const std::filesystem::path& path, int width, int height, bool replace);

}  // namespace keyscope::window
