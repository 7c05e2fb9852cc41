#pragma once

#include <filesystem>

namespace keyscope::recording {

// Compresses a finished recording with shuffle and gzip: writes a copy beside it and renames that over it.
// Compression during a capture would move metadata with every block (see `create_layout`).
//   throws FileError; the file is then as it was
void repack(const std::filesystem::path& path);

}  // namespace keyscope::recording
