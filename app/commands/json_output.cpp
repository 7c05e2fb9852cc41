#include "app/commands/console.hpp"

#include <cstdio>

#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "app/figures/output_file.hpp"
#include "capture/recording/output_path.hpp"

namespace keyscope::commands {

void require_writable(const JsonTarget& target, const std::filesystem::path& source,
                      const std::filesystem::path& out) {
  if (!target.given() || target.is_stdout()) return;
  figures::refuse_same_file(source, target.path, target.option);
  if (!lies_in_new_folder(target.path, out)) recording::output_path(target.path, target.replace);
}

bool lies_in_new_folder(const std::filesystem::path& file, const std::filesystem::path& out) {
  namespace fs = std::filesystem;
  const auto whole = [](const fs::path& path) { return fs::weakly_canonical(fs::absolute(path)); };
  return !out.empty() && !fs::exists(out) && whole(recording::folder_of(file) / "") == whole(out / "");
}

void write_json(const JsonTarget& target, const nlohmann::ordered_json& json) {
  write_text(target, json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void write_text(const JsonTarget& target, const std::string& text) {
  if (!target.is_stdout()) return figures::write_file(target.path, text, target.replace);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw FileError("standard output: could not be written");
}

}  // namespace keyscope::commands
