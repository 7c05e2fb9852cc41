#include "app/validation/result_folder.hpp"

#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "capture/model/strict_json.hpp"

namespace keyscope::validation {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrompts = "prompts";
constexpr const char* kRecordings = "recordings";

fs::path prompt_file(const std::string& key) { return fs::path(kPrompts) / (key.substr(0, 16) + ".json"); }

}  // namespace

ResultFolder::ResultFolder(fs::path out, nlohmann::ordered_json settings, bool discard)
    : out_(std::move(out), std::move(settings), "validation", discard) {}

void ResultFolder::begin() {
  if (out_.discarded())
    for (const char* name :
         {kPrompts, kRecordings, "figures", "validation.json", "validation.html", "validation.h5"})
      fs::remove_all(file(name));
  out_.make(kPrompts);
  out_.write_settings();
}

std::optional<PromptRecord> ResultFolder::find(const std::string& key) const {
  const fs::path path = file(prompt_file(key));
  if (!fs::exists(path)) return std::nullopt;
  try {
    PromptRecord record = parse_prompt_record(capture::read_small_file(path), path.string());
    if (record.key == key) return record;
    throw FileError(fmt::format("{}: \"key\" is {}; expected {}", path.string(), record.key, key));
  } catch (const FileError& error) {
    throw FileError(std::string(error.what()) + "; remove the file, and the prompt is measured again");
  }
}

void ResultFolder::save(const PromptRecord& record) const {
  write(prompt_file(record.key), prompt_record_json(record).dump(1) + "\n");
}

fs::path ResultFolder::recording(const std::string& key) const {
  out_.make(kRecordings);
  return file(kRecordings) / (key.substr(0, 16) + ".h5");
}

}  // namespace keyscope::validation
