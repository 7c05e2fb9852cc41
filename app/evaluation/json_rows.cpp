#include "app/evaluation/json_rows.hpp"

#include <algorithm>
#include <fstream>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/errors.hpp"
#include "app/evaluation/text_file.hpp"
#include "capture/model/strict_json.hpp"

namespace keyscope::evaluation {
namespace {

// Of the lines that a message lists.
constexpr std::size_t kShownLines = 10;

std::ifstream open(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw FileError(fmt::format("{}: found a folder, expected a file", path.string()));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FileError(fmt::format("{}: cannot be read; is the path right?", path.string()));
  return file;
}

void refuse(const std::vector<std::string>& bad, const std::vector<std::int64_t>& lines) {
  if (bad.size() == 1) throw FileError(bad.front() + "; --skip-bad goes on without it");
  const std::vector<std::int64_t> shown(
      lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(std::min(lines.size(), kShownLines)));
  throw FileError(fmt::format("{}; {} rows are bad (lines {}{}); --skip-bad goes on without them",
                              bad.front(), bad.size(), fmt::join(shown, ", "),
                              lines.size() > shown.size() ? ", …" : ""));
}

}  // namespace

ReadRows read_lines(const std::filesystem::path& path, bool skip_bad,
                    const std::function<void(const std::string& line, const std::string& where)>& take) {
  std::ifstream file = open(path);
  ReadRows rows;
  std::vector<std::int64_t> bad_lines;
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    if (number == 1) line = without_byte_order_mark(line);
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (line.empty()) continue;
    try {
      take(line, fmt::format("{}, line {}", path.string(), number));
      ++rows.n_rows;
    } catch (const FileError& error) {
      rows.bad.push_back(error.what());
      bad_lines.push_back(number);
    } catch (const InvalidInput& error) {
      rows.bad.push_back(fmt::format("{}, line {}: {}", path.string(), number, error.what()));
      bad_lines.push_back(number);
    }
  }
  if (file.bad()) throw FileError(fmt::format("{}: could not be read to its end", path.string()));
  if (!rows.bad.empty() && !skip_bad) refuse(rows.bad, bad_lines);
  if (rows.n_rows == 0)
    throw FileError(fmt::format("{}: there is no row{}; expected at least one", path.string(),
                                rows.bad.empty() ? "" : " that can be used"));
  return rows;
}

ReadRows read_json_rows(
    const std::filesystem::path& path, bool skip_bad,
    const std::function<void(const nlohmann::json& row, const std::string& where)>& take) {
  return read_lines(path, skip_bad, [&](const std::string& line, const std::string& where) {
    take(capture::parse_json_object(line, where), where);
  });
}

}  // namespace keyscope::evaluation
