#pragma once

#include <filesystem>

namespace keyscope {

// Nothing replaces what it is made of, whatever was asked for: output_path refuses a file that was noted
// here, by whatever name it goes.

// What is no file is not noted.
void note_input(const std::filesystem::path& file);

// Notes a file, or what a folder of a model or of data is named for: not what may be a result that someone
// put there.
void note_named_input(const std::filesystem::path& path);

bool is_input(const std::filesystem::path& file);

}  // namespace keyscope
