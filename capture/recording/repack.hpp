#pragma once

#include <filesystem>

namespace keyscope::recording {

// Compresses a finished recording with shuffle and gzip: writes a copy beside it and renames that over it.
// Compression during a capture would move metadata with every block (see `create_layout`). Nor are layers
// packed one by one while others are captured: it is gzip's time alone that could be hidden, on cores that
// inference leaves idle, and generated tokens go back to every layer. On the demo model, whose rows are as
// dear as its products, it takes two thirds of the capture's processor time; rows grow with a model's width,
// and products with its square.
//   throws FileError; the file is then as it was
void repack(const std::filesystem::path& path);

}  // namespace keyscope::recording
