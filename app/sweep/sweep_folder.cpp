#include "app/sweep/sweep_folder.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <string_view>
#include <system_error>

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

constexpr int kPlanFormat = 1;
constexpr const char *kPlanFile = "plan.json", *kCellsFile = "cells.jsonl";

Json plan_json(const Plan& plan) {
  Json models = Json::array();
  for (const PlannedModel& model : plan.models)
    models.push_back(
        {{"name", model.name}, {"sha256", model.sha256}, {"weights_sha256", model.weights_sha256}});
  return {
      {"format", kPlanFormat},      {"program", plan.program_version}, {"folder", plan.study.folder.string()},
      {"study", plan.study.json()}, {"models", std::move(models)},     {"n_cells", plan.cells.size()}};
}

std::string cell_line(const Cell& cell) {
  const Json json = {{"cell", cell.id},         {"batch", cell.batch},
                     {"joint", cell.joint},     {"job", cell.job},
                     {"model", cell.model},     {"seed", cell.seed},
                     {"index", cell.index},     {"tokens", cell.tokens},
                     {"seconds", cell.seconds}, {"memory_bytes", cell.memory_bytes}};
  std::string line = json_text(json);
  line.pop_back();
  return fmt::format("{},\"about\":{}}}\n", line, cell.about);
}

int index_below(const JsonField& line, const char* name, std::size_t end) {
  return static_cast<int>(line.member(name).integer(0, static_cast<std::int64_t>(end) - 1));
}

// A digest: files are named by it.
std::string digest(const JsonField& field) {
  std::string text = field.string();
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (text.size() != kDigestDigits || !std::ranges::all_of(text, is_digit))
    field.fail(shown(text), fmt::format("{} hexadecimal digits", kDigestDigits));
  return text;
}

Cell parse_cell(const std::string& text, const std::string& where, const Study& study) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const nlohmann::json json = parse_json_object(text, where);
  const JsonField line(json, where, "");
  Cell cell;
  cell.id = digest(line.member("cell"));
  cell.batch = digest(line.member("batch"));
  cell.joint = line.member("joint").string();
  cell.job = index_below(line, "job", study.jobs.size());
  cell.model = index_below(line, "model", study.models.size());
  cell.seed = index_below(line, "seed", study.seeds.size());
  cell.index = line.member("index").integer(0, kMost);
  cell.tokens = line.member("tokens").integer(0, kMost);
  cell.seconds = line.member("seconds").number();
  cell.memory_bytes = line.member("memory_bytes").integer(0, kMost);
  if (const JsonField about = line.member("about"); !about.is_object()) about.fail_type("an object");
  cell.about = json["about"].dump();
  return cell;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw FileError(fmt::format("{}: cannot be made: {}", folder.string(), error.message()));
}

// Names in a folder that end so, without the end; none where there is no folder.
void add_names(const fs::path& folder, std::string_view end, std::vector<std::string>& names) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), last; !error && entry != last; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(end) && !name.starts_with('.'))
      names.push_back(name.substr(0, name.size() - end.size()));
  }
}

}  // namespace

fs::path SweepFolder::result(const std::string& cell) const {
  return folder_ / "results" / cell.substr(0, 2) / (cell + ".json");
}

fs::path SweepFolder::recording(const std::string& cell) const {
  return folder_ / "results" / cell.substr(0, 2) / (cell + ".h5");
}

fs::path SweepFolder::failure(const std::string& cell) const {
  return folder_ / "failures" / (cell + ".json");
}

void SweepFolder::write(const Plan& plan) const {
  if (fs::exists(folder_) && !fs::is_directory(folder_))
    throw FileError(fmt::format("{}: found a file; expected a folder for the study", folder_.string()));
  if (fs::is_directory(folder_) && !fs::exists(folder_ / kPlanFile) && !fs::is_empty(folder_))
    throw FileError(
        fmt::format("{}: not empty, and no study's folder (there is no {}); expected an empty folder or "
                    "one that was planned before",
                    folder_.string(), kPlanFile));
  for (const char* name : {"", "claims", "results", "failures", "workers"}) make_folder(folder_ / name);
  for (int first = 0; first < 256; ++first) make_folder(folder_ / "results" / fmt::format("{:02x}", first));
  AtomicFile cells(folder_ / kCellsFile, true);
  {
    std::ofstream file(cells.part(), std::ios::binary | std::ios::trunc);
    for (const Cell& cell : plan.cells) file << cell_line(cell);
    file.close();
    if (!file) throw FileError(fmt::format("{}: cannot be written", cells.part().string()));
  }
  // The plan says how many cells there are: who comes between the two files is told so.
  cells.commit();
  write_file(folder_ / kPlanFile, json_text(plan_json(plan), 2) + "\n", true);
}

Plan SweepFolder::read() const {
  const fs::path file = folder_ / kPlanFile;
  if (!fs::exists(file))
    throw FileError(fmt::format("{}: there is no {}; expected a folder that `keyscope sweep plan` made",
                                folder_.string(), kPlanFile));
  const std::string text = read_small_file(file);
  const nlohmann::json json = parse_json_object(text, file.string());
  const JsonField root(json, file.string(), "");
  root.member("format").integer(kPlanFormat, kPlanFormat);
  Plan plan;
  plan.program_version = root.member("program").string();
  plan.study = study_of(parse_ordered_json(text)["study"], file.string() + ": study");
  plan.study.folder = root.member("folder").string();
  root.member("models").for_each([&](const JsonField& model) {
    plan.models.push_back({model.member("name").string(), model.member("sha256").string(),
                           model.member("weights_sha256").string()});
  });
  const auto n_cells = root.member("n_cells").integer(0, std::numeric_limits<std::int64_t>::max());
  const fs::path cells = folder_ / kCellsFile;
  std::ifstream lines = open_file(cells, "a study's cells");
  std::string line;
  for (std::int64_t number = 1; std::getline(lines, line); ++number)
    plan.cells.push_back(parse_cell(line, fmt::format("{}, line {}", cells.string(), number), plan.study));
  require_read(lines, cells.string());
  if (std::ssize(plan.cells) != n_cells)
    throw FileError(fmt::format("{}: found {} cells; expected {}, as {} says; plan the study once more",
                                cells.string(), plan.cells.size(), n_cells, kPlanFile));
  return plan;
}

std::vector<std::string> SweepFolder::finished() const {
  std::vector<std::string> names;
  for (int first = 0; first < 256; ++first)
    add_names(folder_ / "results" / fmt::format("{:02x}", first), ".json", names);
  return names;
}

std::vector<std::string> SweepFolder::failed() const {
  std::vector<std::string> names;
  add_names(folder_ / "failures", ".json", names);
  return names;
}

namespace {

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
    error = try_write_all(out.id(), bytes);
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
