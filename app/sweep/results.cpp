#include "app/sweep/results.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"

namespace keyscope::sweep {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kResultFormat = 1;

[[noreturn]] void fail_to_keep(const fs::path& file, int error) {
  throw KeepError(
      fmt::format("{}: cannot be written: {}", file.string(), std::generic_category().message(error)));
}

// Beside the file under a name of the worker's own, then renamed.
void write_whole(const fs::path& file, std::string_view bytes, const std::string& token) {
  const fs::path part = file.parent_path() / fmt::format(".{}.{}", file.filename().string(), token);
  int error = 0;
  {
    const Descriptor out(part, O_WRONLY | O_CREAT | O_TRUNC);
    if (out.id() < 0) fail_to_keep(part, errno);
    for (std::string_view left = bytes; error == 0 && !left.empty();) {
      const ssize_t n = ::write(out.id(), left.data(), left.size());
      if (n >= 0)
        left.remove_prefix(static_cast<std::size_t>(n));
      else if (errno != EINTR)
        error = errno;
    }
    if (error == 0 && fsync(out.id()) != 0) error = errno;
  }
  if (error == 0 && ::rename(part.c_str(), file.c_str()) != 0) error = errno;
  if (error == 0) return;
  ::unlink(part.c_str());
  fail_to_keep(file, error);
}

}  // namespace

void write_result(const SweepFolder& folder, const ResultHead& head, const std::string& lines,
                  const std::string& token) {
  const Json json = {{"format", kResultFormat},         {"cell", head.cell},
                     {"program", head.program_version}, {"worker", head.worker},
                     {"seconds", head.seconds},         {"lines", std::ranges::count(lines, '\n')}};
  write_whole(folder.result(head.cell), json_text(json) + "\n" + lines, token);
}

Result read_result(const SweepFolder& folder, const std::string& cell) {
  const fs::path file = folder.result(cell);
  const std::string text = read_file(file);
  const auto end = std::min(text.find('\n'), text.size());
  const std::string where = file.string();
  const std::string advice = "delete it, and run the study once more";
  nlohmann::json json;
  try {
    json = parse_json_object(text.substr(0, end), where);
  } catch (const FileError& error) {
    throw FileError(fmt::format("{}; {}", error.what(), advice));
  }
  const JsonField head(json, where, "");
  head.member("format").integer(kResultFormat, kResultFormat);
  Result result;
  result.head = {head.member("cell").string(), head.member("program").string(),
                 head.member("worker").string(), head.member("seconds").number(),
                 head.member("lines").integer(0, std::numeric_limits<std::int64_t>::max())};
  result.lines = end < text.size() ? text.substr(end + 1) : "";
  const auto found = std::ranges::count(result.lines, '\n');
  if (result.head.cell != cell)
    throw FileError(
        fmt::format("{}: found the result of cell {}; {}", where, shown(result.head.cell), advice));
  if (found != result.head.n_lines || (found > 0 && !result.lines.ends_with('\n')))
    throw FileError(
        fmt::format("{}: found {} lines; expected {}; {}", where, found, result.head.n_lines, advice));
  return result;
}

void write_failure(const SweepFolder& folder, const Failure& failure, const std::string& token) {
  const Json json = {{"cell", failure.cell}, {"worker", failure.worker}, {"error", failure.error}};
  write_whole(folder.failure(failure.cell), json_text(json) + "\n", token);
}

Failure read_failure(const SweepFolder& folder, const std::string& cell) {
  const fs::path file = folder.failure(cell);
  const nlohmann::json json = parse_json_object(read_small_file(file), file.string());
  const JsonField root(json, file.string(), "");
  return {root.member("cell").string(), root.member("worker").string(), root.member("error").string()};
}

}  // namespace keyscope::sweep
