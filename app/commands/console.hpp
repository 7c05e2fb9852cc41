#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace keyscope::commands {

// Where --json (or another option's text) goes: a file, or stdout for "-", or nowhere for "".
struct JsonTarget {
  std::string path;
  bool replace = false;
  std::string option = "--json";

  bool given() const { return !path.empty(); }
  bool is_stdout() const { return path == "-"; }
};

// Before long work: whether it can be written.
//   source: what is read; it is not replaced, whatever was asked for
//   out: a folder that the work will make, if any
//   throws UsageError where both are one file; FileError if it exists and may not be replaced
void require_writable(const JsonTarget& target, const std::filesystem::path& source,
                      const std::filesystem::path& out = {});

// Whether a file is to lie in a folder that is not there yet.
bool lies_in_new_folder(const std::filesystem::path& file, const std::filesystem::path& out);

// Both write a file (whole or not at all) or stdout.
//   throws FileError when it cannot be written
void write_text(const JsonTarget& target, const std::string& text);
// Bytes that are no UTF-8 become U+FFFD.
void write_json(const JsonTarget& target, const nlohmann::ordered_json& json);

}  // namespace keyscope::commands
