#include "app/sweep/study.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"

namespace keyscope::sweep {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// What a study gives by itself, or what has no meaning in it.
constexpr std::array<std::string_view, 9> kNotOptions = {"model", "seed",  "out",     "json", "figure",
                                                         "force", "quiet", "dry-run", "help"};

std::string word_of(const std::string& name, const Json& value) {
  if (value.is_boolean()) return "--" + name;
  return fmt::format("--{}={}", name, value.is_string() ? value.get<std::string>() : value.dump());
}

bool is_value(const Json& value) {
  return value.is_string() || value.is_number() || (value.is_boolean() && value.get<bool>());
}

void check_option(const std::string& name, const Json& value, const std::string& where) {
  if (std::ranges::find(kNotOptions, name) != kNotOptions.end())
    throw FileError(
        fmt::format("{}: \"{}\" is no option of a job; models and seeds stand beside \"jobs\", and "
                    "where results go is up to sweep",
                    where, name));
  const bool fits =
      value.is_array() ? !value.empty() && std::ranges::all_of(value, is_value) : is_value(value);
  if (!fits)
    throw FileError(fmt::format("{}.{}: found {}; expected a text, a number, true, or a list of these", where,
                                name, shown_value(value)));
}

StudyJob read_job(const Json& json, const JsonField& field) {
  StudyJob job{field.member("command").string(), Json::object()};
  for (const auto& [name, value] : json.items()) {
    if (name == "command") continue;
    check_option(name, value, fmt::format("{}: {}", field.file(), field.path()));
    job.options[name] = value;
  }
  return job;
}

void check_members(const Json& json, const std::string& where) {
  constexpr std::array<std::string_view, 4> kMembers = {"name", "models", "seeds", "jobs"};
  for (const auto& [name, value] : json.items())
    if (std::ranges::find(kMembers, name) == kMembers.end())
      throw FileError(
          fmt::format("{}: {} is not known; expected {}", where, shown(name), fmt::join(kMembers, ", ")));
}

// What is empty has no cells, and what is named twice would count twice.
template <typename Value>
void check_list(const std::vector<Value>& list, const char* name, const std::string& where) {
  if (list.empty()) throw FileError(fmt::format("{}: \"{}\" is empty; expected one at least", where, name));
  if (std::set(list.begin(), list.end()).size() != list.size())
    throw FileError(fmt::format("{}: \"{}\" names one twice, which would count twice", where, name));
}

}  // namespace

std::vector<std::string> StudyJob::words() const {
  std::vector<std::string> words;
  for (const auto& [name, value] : options.items())
    if (value.is_array())
      for (const Json& one : value) words.push_back(word_of(name, one));
    else
      words.push_back(word_of(name, value));
  return words;
}

Json Study::json() const {
  Json json{{"name", name}, {"models", models}, {"seeds", seeds}, {"jobs", Json::array()}};
  for (const StudyJob& job : jobs) {
    Json entry{{"command", job.command}};
    entry.update(job.options);
    json["jobs"].push_back(std::move(entry));
  }
  return json;
}

Study study_of(const Json& json, const std::string& where) {
  const nlohmann::json unordered = json;
  const JsonField root(unordered, where, "");
  if (!root.is_object()) root.fail_type("an object with models and jobs");
  check_members(json, where);
  Study study;
  study.name = root.string_or("name", "study");
  root.member("models").for_each([&](const JsonField& model) { study.models.push_back(model.string()); });
  const auto seeds = root.optional("seeds");
  if (!seeds)
    study.seeds = {0};
  else
    seeds->for_each([&](const JsonField& seed) {
      study.seeds.push_back(seed.integer(0, std::numeric_limits<std::int64_t>::max()));
    });
  std::set<std::string> jobs;
  root.member("jobs").for_each([&](const JsonField& job) {
    const Json& entry = json["jobs"][study.jobs.size()];
    if (!jobs.insert(json_text(entry)).second) job.fail("the same as an earlier one", "every job once");
    study.jobs.push_back(read_job(entry, job));
  });
  check_list(study.models, "models", where);
  check_list(study.seeds, "seeds", where);
  if (study.jobs.empty()) throw FileError(fmt::format("{}: \"jobs\" is empty; expected one at least", where));
  return study;
}

Study read_study(const fs::path& file) {
  Study study = study_of(parse_ordered_json_object(read_small_file(file), file.string()), file.string());
  study.folder = folder_of(full_path(file));
  return study;
}

}  // namespace keyscope::sweep
