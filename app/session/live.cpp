#include "app/session/live_check.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <initializer_list>
#include <system_error>

#include <fmt/format.h>

namespace keyscope::session {
namespace {

namespace fs = std::filesystem;

std::string model_problem(const fs::path& folder) {
  std::error_code error;
  if (folder.empty()) return "name a model folder, or drop one on the window";
  if (!fs::is_directory(folder, error)) return "there is no such folder";
  if (!fs::is_regular_file(folder / "config.json", error)) return "no model: there is no config.json in it";
  return {};
}

std::string prompt_problem(const LiveRequest& request) {
  std::error_code error;
  if (!request.options.prompt_ids.empty()) return {};
  if (!request.prompt_file.empty()) {
    if (fs::is_regular_file(request.prompt_file, error)) return {};
    return fs::exists(request.prompt_file, error) ? "this is no file" : "there is no such file";
  }
  return request.prompt.empty() ? "write a prompt, or drop a text file on the window" : std::string();
}

// Text as editors write it has no zero bytes; HDF5, safetensors and pictures have some at once.
bool looks_like_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 4096> start{};
  file.read(start.data(), start.size());
  const auto n = static_cast<std::size_t>(file.gcount());
  return n > 0 && std::find(start.begin(), start.begin() + static_cast<std::ptrdiff_t>(n), '\0') ==
                      start.begin() + static_cast<std::ptrdiff_t>(n);
}

}  // namespace

std::string LiveProblems::first() const {
  for (const std::string* problem : {&model, &prompt, &policies, &budget, &block, &generate, &out})
    if (!problem->empty()) return *problem;
  return {};
}

LiveProblems check_live(const LiveRequest& request) {
  LiveProblems problems;
  std::error_code error;
  const auto& options = request.options;
  problems.model = model_problem(request.model_folder);
  problems.prompt = prompt_problem(request);
  if (options.policies.empty()) problems.policies = "choose at least one";
  const bool evicts =
      std::ranges::any_of(options.policies, [](const auto& policy) { return policy.name != "none"; });
  if (evicts && options.budget < 1 && options.budgets.empty()) problems.budget = "at least 1";
  if (options.block_size < 1) problems.block = "at least 1";
  if (options.generate < 0) problems.generate = "0 or more";
  if (!request.out.empty() && !request.replace && fs::exists(request.out, error))
    problems.out =
        fmt::format("exists already; free: {}, or tick Replace", free_name(request.out).filename().string());
  if (!request.out.empty() && fs::is_directory(request.out, error))
    problems.out = "this is a folder; name a file";
  return problems;
}

DroppedKind kind_of_dropped(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    return fs::is_regular_file(path / "config.json", error) ? DroppedKind::kModel : DroppedKind::kRecording;
  if (!fs::is_regular_file(path, error)) return DroppedKind::kRecording;
  const std::string extension = path.extension().string();
  for (const char* recording : {".h5", ".hdf5", ".nxs", ".part"})
    if (extension == recording) return DroppedKind::kRecording;
  return looks_like_text(path) ? DroppedKind::kPrompt : DroppedKind::kRecording;
}

fs::path free_name(const fs::path& path) {
  std::error_code error;
  fs::path name = path;
  for (int n = 2; fs::exists(name, error); ++n)
    name = path.parent_path() / fmt::format("{}-{}{}", path.stem().string(), n, path.extension().string());
  return name;
}

}  // namespace keyscope::session
