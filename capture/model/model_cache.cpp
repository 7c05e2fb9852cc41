#include "capture/model/model_cache.hpp"

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "capture/gguf/gguf.hpp"

namespace keyscope::capture {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModels = "models--";
constexpr std::string_view kBetween = "--";  // stands for the slash of ORG/NAME

// A folder that a variable names, if it names one; a leading ~ is the user's own.
std::optional<fs::path> folder_from(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return std::nullopt;
  const std::string_view text(value);
  const char* home = std::getenv("HOME");
  if (home == nullptr || (text != "~" && !text.starts_with("~/"))) return fs::path(text);
  return fs::path(fmt::format("{}{}", home, text.substr(1)));
}

// ORG/NAME or NAME, and what stands behind an @.
struct Request {
  std::string repository, revision;
};

bool is_part(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !text.empty() && text.front() != '.' && text.front() != '-' && text.find(kBetween) == text.npos &&
         std::ranges::all_of(text, allowed);
}

bool is_revision(std::string_view text) {
  return !text.empty() && text.front() != '/' && text.find("..") == text.npos && text.find('\0') == text.npos;
}

std::optional<Request> parse_request(std::string_view name) {
  const auto at = name.find('@');
  const std::string_view repository = name.substr(0, at);
  const std::string_view revision = at == name.npos ? std::string_view("main") : name.substr(at + 1);
  const auto slash = repository.find('/');
  const bool sound = slash == repository.npos
                         ? is_part(repository)
                         : is_part(repository.substr(0, slash)) && is_part(repository.substr(slash + 1));
  if (!sound || !is_revision(revision)) return std::nullopt;
  return Request{std::string(repository), std::string(revision)};
}

std::string folder_name(std::string_view repository) {
  std::string name(kModels);
  for (const char c : repository) c == '/' ? name.append(kBetween) : name.append(1, c);
  return name;
}

// Empty where the folder is none of the cache's.
std::string repository_of(std::string_view folder_name) {
  if (!folder_name.starts_with(kModels)) return {};
  const std::string_view name = folder_name.substr(kModels.size());
  const auto between = name.find(kBetween);
  if (between == name.npos) return std::string(name);
  return fmt::format("{}/{}", name.substr(0, between), name.substr(between + kBetween.size()));
}

std::string command_for(const Request& request) {
  return fmt::format("hf download {}{}", request.repository,
                     request.revision == "main" ? "" : " --revision " + request.revision);
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::ranges::sort(names);
  return names;
}

// The commit that a branch or a tag stands for, or the commit itself.
std::string commit_of(const fs::path& repository, const std::string& revision) {
  std::error_code error;
  const fs::path ref = repository / "refs" / revision;
  if (!fs::is_regular_file(ref, error)) return revision;
  std::string commit = read_small_file(ref);
  commit.erase(std::find_if(commit.begin(), commit.end(), [](char c) { return c == '\n' || c == '\r'; }),
               commit.end());
  return is_part(commit) ? commit : revision;
}

}  // namespace

fs::path model_cache() {
  if (const auto folder = folder_from("HF_HUB_CACHE")) return *folder;
  if (const auto folder = folder_from("HUGGINGFACE_HUB_CACHE")) return *folder;  // as it was once called
  if (const auto folder = folder_from("HF_HOME")) return *folder / "hub";
  const auto cache = folder_from("XDG_CACHE_HOME");
  return (cache ? *cache : folder_from("HOME").value_or("/") / ".cache") / "huggingface" / "hub";
}

fs::path find_model(const std::string& name) {
  std::error_code error;
  if (fs::exists(name, error)) return gguf::gguf_in(name).value_or(name);
  const auto request = parse_request(name);
  const fs::path repository = request ? model_cache() / folder_name(request->repository) : fs::path();
  const bool has_organisation = request && request->repository.find('/') != std::string::npos;
  if (!request || (!has_organisation && !fs::exists(repository, error)))
    throw FileError(
        fmt::format("{}: is no folder; expected a model folder in Hugging Face layout, or ORG/NAME of a "
                    "model in the cache {}",
                    name, model_cache().string()));
  fs::path folder = repository / "snapshots" / commit_of(repository, request->revision);
  if (fs::is_directory(folder, error)) return gguf::gguf_in(folder).value_or(folder);
  const auto there = names_in(repository / "snapshots");
  const std::string others =
      there.empty() ? "" : fmt::format(" at that revision, only at {}", shown_list(there));
  throw FileError(fmt::format("{}: is no folder here, and not in the model cache {}{}; fetch it with: {}",
                              name, model_cache().string(), others, command_for(*request)));
}

std::vector<std::string> cached_models() {
  std::vector<std::string> models;
  for (const std::string& name : names_in(model_cache())) {
    const std::string repository = repository_of(name);
    if (!repository.empty() && !names_in(model_cache() / name / "snapshots").empty())
      models.push_back(repository);
  }
  return models;
}

std::optional<CachedModel> cached_model(const fs::path& folder) {
  fs::path path = fs::absolute(folder).lexically_normal();
  if (!path.has_filename() || gguf::is_gguf(path)) path = path.parent_path();
  const std::string repository = repository_of(path.parent_path().parent_path().filename().string());
  if (repository.empty() || path.parent_path().filename() != "snapshots") return std::nullopt;
  return CachedModel{repository, path.filename().string()};
}

std::string model_name(const fs::path& folder) {
  const bool is_file = gguf::is_gguf(folder);
  if (const auto cached = cached_model(folder))
    return is_file ? fmt::format("{}/{}", cached->repository, folder.filename().string())
                   : cached->repository;
  const fs::path path = fs::absolute(folder).lexically_normal();
  if (is_file) return path.stem().string();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

std::string fetch_advice(const fs::path& folder) {
  const auto cached = cached_model(folder);
  return cached ? fmt::format("; fetch it with: {}", command_for({cached->repository, cached->commit})) : "";
}

}  // namespace keyscope::capture
