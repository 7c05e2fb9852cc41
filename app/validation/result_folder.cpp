#include "app/validation/result_folder.hpp"

#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/errors.hpp"
#include "app/figures/output_file.hpp"
#include "app/validation/settings.hpp"
#include "capture/model/strict_json.hpp"
#include "capture/recording/part_file.hpp"

namespace keyscope::validation {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kSettings = "settings.json";
constexpr const char* kPrompts = "prompts";
constexpr const char* kRecordings = "recordings";

Json read_settings(const fs::path& path) {
  const std::string text = capture::read_small_file(path);
  capture::parse_json_object(text, path.string());  // for its messages
  return Json::parse(text);
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw FileError(fmt::format("{}: the folder cannot be made: {}", folder.string(), error.message()));
}

fs::path prompt_file(const std::string& key) { return fs::path(kPrompts) / (key.substr(0, 16) + ".json"); }

}  // namespace

ResultFolder::ResultFolder(fs::path out, Json settings, bool discard)
    : out_(std::move(out)), settings_(std::move(settings)) {
  if (!fs::exists(out_)) return;
  if (!fs::is_directory(out_))
    throw FileError(fmt::format("{}: found a file, expected a folder for the results", out_.string()));
  if (!fs::exists(file(kSettings))) {
    if (!fs::is_empty(out_))
      throw FileError(
          fmt::format("{}: not empty, and no validation's results (there is no {}); expected an "
                      "empty folder or an earlier --out",
                      out_.string(), kSettings));
    return;
  }
  const auto differences = setting_differences(read_settings(file(kSettings)), settings_);
  if (differences.empty()) return;
  if (!discard)
    throw FileError(
        fmt::format("{}: results of other settings are there: {}; take another --out, or "
                    "--force to discard them",
                    out_.string(), fmt::join(differences, "; ")));
  discard_earlier_ = true;
}

void ResultFolder::begin() {
  if (discard_earlier_) {
    // Before the new settings are written, so that a kill leaves no results beside settings of others.
    for (const char* name :
         {kPrompts, kRecordings, "figures", "validation.json", "validation.html", "validation.h5"})
      fs::remove_all(out_ / name);
    discard_earlier_ = false;
  }
  make_folder(out_ / kPrompts);
  write(kSettings, settings_.dump(2) + "\n");
}

std::optional<PromptRecord> ResultFolder::find(const std::string& key) const {
  const fs::path path = file(prompt_file(key));
  if (!fs::exists(path)) return std::nullopt;
  PromptRecord record = parse_prompt_record(capture::read_small_file(path), path.string());
  if (record.key != key)
    throw FileError(fmt::format("{}: \"key\" is {}; expected {}; remove it, and it is measured again",
                                path.string(), record.key, key));
  return record;
}

void ResultFolder::save(const PromptRecord& record) const {
  write(prompt_file(record.key), prompt_record_json(record).dump(1) + "\n");
}

void ResultFolder::write(const fs::path& name, std::string_view bytes) const {
  figures::write_file(file(name), bytes, true);
  recording::sync_path(file(name).parent_path());
}

fs::path ResultFolder::recording(const std::string& key) const {
  make_folder(out_ / kRecordings);
  return out_ / kRecordings / (key.substr(0, 16) + ".h5");
}

}  // namespace keyscope::validation
