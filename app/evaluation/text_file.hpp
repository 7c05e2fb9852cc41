#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace keyscope::evaluation {

// Without the byte order mark that some editors put in front of UTF-8; it is no part of the text.
std::string_view without_byte_order_mark(std::string_view text);

// A whole file of text, without a byte order mark.
//   throws FileError where it is a folder, cannot be read or is not UTF-8
std::string read_text_file(const std::filesystem::path& path);

}  // namespace keyscope::evaluation
