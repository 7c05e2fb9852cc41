#pragma once

#include <string>

namespace keyscope::recording {

// Opens a recording and reads all that it offers, as every command together would. Gives the message of the
// FileError that ended it, or nothing.
std::string read_everything(const std::string& path);

}  // namespace keyscope::recording
