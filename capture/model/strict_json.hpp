#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace keyscope::capture {

// Parses a JSON object as untrusted files need it: the whole text, nothing else; every key once (nlohmann
// alone keeps the last of two without a word); nesting bounded, so that a file of brackets costs no memory.
//   where: the file's name, for messages
//   throws FileError naming it
nlohmann::json parse_json_object(std::string_view text, const std::string& where);

// The bytes of a small file.
//   throws FileError where it cannot be read, is no file, or is larger than any configuration
std::string read_small_file(const std::filesystem::path& path);

// Text of a file as a message may show it: in quotes, control characters escaped, not longer than a line.
std::string shown(std::string_view text);

}  // namespace keyscope::capture
