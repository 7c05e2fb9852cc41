#include "app/evaluation/result_folder.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/errors.hpp"
#include "app/evaluation/figure_names.hpp"
#include "base/files.hpp"

namespace keyscope::evaluation {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kExamples = "examples.jsonl";
constexpr const char* kResults = "results.json";

[[noreturn]] void fail(const fs::path& path, const char* what) {
  throw FileError(fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno)));
}

}  // namespace

std::vector<fs::path> summary_files(const fs::path& out, const std::string& task, bool compared) {
  std::vector<fs::path> files{out / kResults};
  const auto figures = figure_names(task, compared);
  for (const std::string_view name : figures)
    for (const char* extension : {".png", ".svg", ".pdf"})
      files.push_back(out / (std::string(name) + extension));
  if (!figures.empty()) files.push_back(out / (task + ".h5"));
  return files;
}

std::vector<fs::path> folder_files(const fs::path& out, const std::string& task, bool compared) {
  std::vector<fs::path> files = summary_files(out, task, compared);
  files.push_back(out / kExamples);
  files.push_back(out / results::OutFolder::kSettings);
  return files;
}

ResultFolder::ResultFolder(fs::path out, Json settings, bool discard)
    : out_(std::move(out), std::move(settings), "evaluation", discard) {
  if (out_.goes_on()) read_earlier();
  if (!out_.discarded()) return;
  const Json& earlier = *out_.discarded();
  if (!earlier.contains("task") || !earlier["task"].is_string() || earlier["task"] == "")
    throw FileError(fmt::format("{}: \"task\" is missing; expected an evaluation's settings",
                                out_.settings_file().string()));
  discarded_task_ = earlier["task"];
}

ResultFolder::~ResultFolder() {
  if (descriptor_ >= 0) close(descriptor_);
}

void ResultFolder::read_earlier() {
  if (!fs::exists(file(kExamples))) return;
  std::ifstream lines(file(kExamples), std::ios::binary);
  std::string line;
  for (std::int64_t number = 1; std::getline(lines, line); ++number) {
    if (lines.eof()) return;  // torn: the line's end is missing
    const std::string where = fmt::format("{}, line {}", file(kExamples).string(), number);
    ExampleResult result = parse_result(line, where);
    const std::string key = result_key(result.id, result.policy, result.budget_text, result.block);
    if (!earlier_.emplace(key, std::move(result)).second)
      throw FileError(where + ": the same example, policy, budget and block as on an earlier line");
    whole_bytes_ += std::ssize(line) + 1;
  }
  if (lines.bad()) throw FileError(fmt::format("{}: could not be read to its end", file(kExamples).string()));
}

void ResultFolder::begin() {
  out_.make();
  open_lines();
  if (!discarded_task_.empty()) remove_results_of(discarded_task_);
  out_.write_settings();
}

void ResultFolder::open_lines() {
  const fs::path path = file(kExamples);
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(path, "cannot be written");
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0)
    throw FileError(fmt::format("{}: another evaluation is writing there", path.string()));
  if (ftruncate(descriptor_, whole_bytes_) != 0) fail(path, "cannot be cut after its last whole line");
  recording::sync_data(descriptor_, path.string());
  recording::sync_path(out_.path());
}

void ResultFolder::remove_results_of(const std::string& task) const {
  for (const fs::path& path : summary_files(out_.path(), task, true)) fs::remove(path);
}

void ResultFolder::append(std::string_view line) {
  const fs::path path = file(kExamples);
  std::string bytes(line);
  bytes += '\n';
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::write(descriptor_, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "cannot be written");
    done += static_cast<std::size_t>(n);
  }
  recording::sync_data(descriptor_, path.string());
}

}  // namespace keyscope::evaluation
