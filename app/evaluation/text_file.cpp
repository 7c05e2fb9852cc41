#include "app/evaluation/text_file.hpp"

#include <fstream>
#include <iterator>
#include <system_error>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::evaluation {

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

std::string read_text_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw FileError(fmt::format("{}: found a folder, expected a text file", path.string()));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FileError(fmt::format("{}: cannot be read; is the path right?", path.string()));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) throw FileError(fmt::format("{}: could not be read to its end", path.string()));
  std::string buffer;
  if (tokenizer::replace_invalid_utf8(text, buffer).data() != text.data())
    throw FileError(fmt::format("{}: is no UTF-8; expected text in UTF-8", path.string()));
  return std::string(without_byte_order_mark(text));
}

}  // namespace keyscope::evaluation
