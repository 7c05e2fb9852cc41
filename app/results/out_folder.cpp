#include "app/results/out_folder.hpp"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace keyscope::results {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string settings_text(const fs::path& path) { return fs::exists(path) ? read_small_file(path) : ""; }

// Whether a folder holds no more than a kill leaves there before the settings are written: folders, files
// without a byte, and settings that did not get their name.
bool holds_nothing(const fs::path& folder) {
  const fs::recursive_directory_iterator entries(folder);
  return std::all_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    if (entry.is_directory()) return true;
    const std::string name = entry.path().filename().string();
    const bool unnamed_settings =
        name.starts_with(std::string(OutFolder::kSettings) + ".") && name.ends_with(".part");
    return entry.is_regular_file() && (unnamed_settings || entry.file_size() == 0);
  });
}

}  // namespace

OutFolder::OutFolder(fs::path out, const Json& settings, std::string_view kind, bool discard)
    : out_(std::move(out)), settings_(json_text(settings, 2) + "\n") {
  if (!fs::exists(out_)) return;
  if (!fs::is_directory(out_))
    throw FileError(fmt::format("{}: found a file, expected a folder for the results", out_.string()));
  if (!fs::exists(settings_file())) {
    if (!holds_nothing(out_))
      throw FileError(
          fmt::format("{}: not empty, and no {}'s results (there is no {}); expected an empty folder or an "
                      "earlier --out",
                      out_.string(), kind, kSettings));
    return;
  }
  opened_on_ = settings_text(settings_file());
  Json earlier = parse_ordered_json_object(opened_on_, settings_file().string());
  const auto differences = setting_differences(earlier, settings);
  goes_on_ = differences.empty();
  if (goes_on_) return;
  if (!discard)
    throw FileError(
        fmt::format("{}: results of other settings are there: {}; take another --out, or "
                    "--force to discard them",
                    out_.string(), shown_list(differences, "; ")));
  discarded_ = std::make_shared<const Json>(std::move(earlier));
}

void OutFolder::require_own(const std::function<bool(const Json& task)>& is_own) const {
  if (discarded_ && !is_own(discarded_->value("task", Json())))
    throw FileError(fmt::format("{}: of another command; take another --out", settings_file().string()));
}

void OutFolder::begin() {
  make();
  auto folder = std::make_shared<const Descriptor>(out_, O_RDONLY | O_DIRECTORY);
  if (try_lock(folder->id()) == FileLock::kBusy)
    throw FileError(fmt::format("{}: another run is writing there", out_.string()));
  if (settings_text(settings_file()) != opened_on_)
    throw FileError(
        fmt::format("{}: another run began there a moment ago; run the command again", out_.string()));
  held_ = std::move(folder);
}

void OutFolder::make(const fs::path& name) const {
  const fs::path folder = name.empty() ? out_ : file(name);
  std::error_code error;
  const bool is_new = fs::create_directories(folder, error);
  if (error)
    throw FileError(fmt::format("{}: the folder cannot be made: {}", folder.string(), error.message()));
  if (is_new) sync_path(folder_of(folder));
}

void OutFolder::write_settings() {
  write(kSettings, settings_);
  discarded_.reset();
}

void OutFolder::write(const fs::path& name, std::string_view bytes) const {
  write_file(file(name), bytes, true);
}

fs::path OutFolder::settings_file() const { return file(kSettings); }

std::vector<std::string> setting_differences(const nlohmann::ordered_json& there,
                                             const nlohmann::ordered_json& here) {
  std::vector<std::string> sentences;
  for (const auto& [name, value] : here.items()) {
    const auto found = there.value(name, nlohmann::ordered_json());
    if (found != value)
      sentences.push_back(
          fmt::format("{} is {} there and {} here", name, json_text(found), json_text(value)));
  }
  return sentences;
}

}  // namespace keyscope::results
