#include "app/sweep/sweep_folder.hpp"

#include <algorithm>
#include <array>
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
#include "base/outputs_together.hpp"

namespace keyscope::sweep {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kPlanFormat = 1;
constexpr const char *kPlanFile = "plan.json", *kCellsFile = "cells.jsonl";
constexpr std::array<const char*, 4> kFolders{"claims", "results", "failures", "workers"};

Json plan_json(const Plan& plan) {
  Json models = Json::array();
  for (const PlannedModel& model : plan.models)
    models.push_back(
        {{"name", model.name}, {"sha256", model.sha256}, {"weights_sha256", model.weights_sha256}});
  return {
      {"format", kPlanFormat},      {"program", plan.program_version}, {"folder", plan.study.folder.string()},
      {"study", plan.study.json()}, {"models", std::move(models)},     {"n_cells", plan.n_cells}};
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
  if (!Digest::parse(text)) field.fail(shown(text), fmt::format("{} hexadecimal digits", kDigestDigits));
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
  const JsonField about = line.member("about");
  if (!about.is_object()) about.fail_type("an object");
  for (const char* name : {"policy", "budget", "task"})
    about.string_or(name, "");  // what a merge asks it for
  if (const auto block = about.optional("block")) block->integer(0, kMost);
  cell.about = json["about"].dump();
  return cell;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw FileError(fmt::format("{}: cannot be made: {}", folder.string(), error.message()));
}

// The cells whose files a folder has; none where there is no folder.
void add_cells(const fs::path& folder, DigestSet& cells) {
  constexpr std::string_view kEnd = ".json";
  for_each_entry(folder, [&](const fs::path& file) {
    const std::string name = file.filename().string();
    if (!name.ends_with(kEnd)) return;
    const auto cell = Digest::parse(std::string_view(name).substr(0, name.size() - kEnd.size()));
    if (cell) cells.insert(*cell);
  });
}

// Whether a folder has nothing but what the beginning of a plan, which may have been ended at any moment,
// leaves there.
bool is_begun_plan(const fs::path& folder) {
  return std::ranges::all_of(fs::directory_iterator(folder), [](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    return std::ranges::find(kFolders, name) != std::end(kFolders) || name.starts_with(kCellsFile) ||
           name.starts_with(std::string(kPlanFile) + ".");
  });
}

}  // namespace

void for_each_entry(const fs::path& folder, const std::function<void(const fs::path&)>& each) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), last; !error && entry != last; entry.increment(error))
    each(entry->path());
  if (error && error != std::errc::no_such_file_or_directory)
    throw FileError(fmt::format("{}: cannot be listed: {}", folder.string(), error.message()));
}

fs::path SweepFolder::result(const std::string& cell) const {
  return folder_ / "results" / cell.substr(0, 2) / (cell + ".json");
}

fs::path SweepFolder::recording(const std::string& cell) const {
  return folder_ / "results" / cell.substr(0, 2) / (cell + ".h5");
}

fs::path SweepFolder::failure(const std::string& cell) const {
  return folder_ / "failures" / (cell + ".json");
}

Plan SweepFolder::write(const std::function<Plan(const EachCell&)>& plan) const {
  if (fs::exists(folder_) && !fs::is_directory(folder_))
    throw FileError(fmt::format("{}: found a file; expected a folder for the study", folder_.string()));
  if (fs::is_directory(folder_) && !fs::exists(folder_ / kPlanFile) && !is_begun_plan(folder_))
    throw FileError(
        fmt::format("{}: not empty, and no study's folder (there is no {}); expected an empty folder or "
                    "one that was planned before",
                    folder_.string(), kPlanFile));
  const bool is_new = !fs::exists(folder_);
  make_folder(folder_);
  Plan made;
  try {
    AtomicFile cells(folder_ / kCellsFile, true);
    std::ofstream file(cells.part(), std::ios::binary | std::ios::trunc);
    made = plan([&](const Cell& cell) { file << cell_line(cell); });
    file.close();
    if (!file) throw FileError(fmt::format("{}: cannot be written", cells.part().string()));
    for (const char* name : kFolders) make_folder(folder_ / name);
    for (int first = 0; first < 256; ++first) make_folder(folder_ / "results" / fmt::format("{:02x}", first));
    sync_path(folder_ / "results");
    if (is_new) sync_path(folder_of(folder_));
    // The plan says how many cells there are: who comes between the two names is told so.
    OutputsTogether outputs;
    cells.commit();
    write_file(folder_ / kPlanFile, json_text(plan_json(made), 2) + "\n", true);
    outputs.commit();
  } catch (...) {
    std::error_code ignored;
    if (is_new) fs::remove(folder_, ignored);  // which it is not where it holds something
    throw;
  }
  return made;
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
  plan.study = study_of(parse_ordered_json_object(text, file.string())["study"], file.string() + ": study");
  plan.study.folder = root.member("folder").string();
  root.member("models").for_each([&](const JsonField& model) {
    plan.models.push_back({model.member("name").string(), model.member("sha256").string(),
                           model.member("weights_sha256").string()});
  });
  if (plan.models.size() != plan.study.models.size())
    throw FileError(fmt::format("{}: found {} models; expected {}, as the study has", file.string(),
                                plan.models.size(), plan.study.models.size()));
  plan.n_cells = root.member("n_cells").integer(0, std::numeric_limits<std::int64_t>::max());
  return plan;
}

DigestSet SweepFolder::finished() const {
  DigestSet cells;
  for (int first = 0; first < 256; ++first)
    add_cells(folder_ / "results" / fmt::format("{:02x}", first), cells);
  return cells;
}

DigestSet SweepFolder::failed() const {
  DigestSet cells;
  add_cells(folder_ / "failures", cells);
  return cells;
}

void SweepFolder::forget_failures() const {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_ / "failures"))
    if (!entry.path().filename().string().starts_with('.')) fs::remove(entry.path());
}

CellReader::CellReader(const SweepFolder& folder, const Plan& plan)
    : plan_(plan),
      file_((folder.path() / kCellsFile).string()),
      lines_(open_file(file_, "a study's cells")) {}

std::optional<Cell> CellReader::next() {
  std::string line;
  const bool found = !std::getline(lines_, line).fail();
  require_read(lines_, file_);
  if (found != (place_.number < plan_.n_cells))
    throw FileError(fmt::format("{}: found {} {} cells; expected {}, as {} says; plan the study once more",
                                file_, found ? "more than" : "only", place_.number, plan_.n_cells,
                                kPlanFile));
  if (!found) return std::nullopt;
  ++place_.number;
  place_.byte += std::ssize(line) + 1;
  return parse_cell(line, fmt::format("{}, line {}", file_, place_.number), plan_.study);
}

void CellReader::go_to(const Place& place) {
  lines_.clear();
  lines_.seekg(place.byte);
  place_ = place;
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
  if (error != 0) {
    ::unlink(part.c_str());
    fail_to_keep(file, error);
  }
  keep_as(file, part);
}

}  // namespace

void keep_as(const fs::path& file, const fs::path& part) {
  if (::rename(part.c_str(), file.c_str()) != 0) {
    const int error = errno;
    ::unlink(part.c_str());
    fail_to_keep(file, error);
  }
  try {
    sync_path(folder_of(file));
  } catch (const FileError& error) {
    throw KeepError(error.what());
  }
}

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
  const nlohmann::json json = parse_json_object(text.substr(0, end), where);
  const JsonField head(json, where, "");
  head.member("format").integer(kResultFormat, kResultFormat);
  Result result;
  result.head = {head.member("cell").string(), head.member("program").string(),
                 head.member("worker").string(), head.member("seconds").number(),
                 head.member("lines").integer(0, std::numeric_limits<std::int64_t>::max())};
  result.lines = end < text.size() ? text.substr(end + 1) : "";
  const auto found = std::ranges::count(result.lines, '\n');
  if (result.head.cell != cell)
    throw FileError(fmt::format("{}: found the result of cell {}", where, shown(result.head.cell)));
  if (found != result.head.n_lines || (found > 0 && !result.lines.ends_with('\n')))
    throw FileError(fmt::format("{}: found {} lines; expected {}", where, found, result.head.n_lines));
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
