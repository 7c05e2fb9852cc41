#include "app/commands/text_input.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::commands {

TextInput::TextInput(const std::string& path) {
  if (path == "-") return;
  name_ = path;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw FileError(fmt::format("{}: found a folder, expected a text file", path));
  file_.open(path, std::ios::binary);
  if (!file_) throw FileError(fmt::format("{}: cannot be read; is the path right?", path));
}

std::string TextInput::read_all() {
  std::string text{std::istreambuf_iterator<char>(stream()), {}};
  check();
  require_utf8(text, name_);
  return text;
}

void TextInput::check() {
  if (stream().bad()) throw FileError(fmt::format("{}: could not be read to its end", name_));
}

void require_utf8(const std::string& text, const std::string& name) {
  std::string buffer;
  const std::string_view valid = tokenizer::replace_invalid_utf8(text, buffer);
  if (valid.data() == text.data()) return;
  const auto at = std::mismatch(text.begin(), text.end(), valid.begin(), valid.end()).first - text.begin();
  throw FileError(
      fmt::format("{}: byte {} is no UTF-8 (found 0x{:02X}); expected a UTF-8 text, so convert it first",
                  name, at, static_cast<unsigned char>(text[static_cast<std::size_t>(at)])));
}

std::istream& TextInput::standard_input() { return std::cin; }

}  // namespace keyscope::commands
