#include "app/commands/json_output.hpp"

#include <cstdio>

#include <nlohmann/json.hpp>

#include "analysis/errors.hpp"
#include "app/figures/output_file.hpp"
#include "capture/recording/output_path.hpp"

namespace keyscope::commands {

void require_writable(const JsonTarget& target, const std::filesystem::path& source) {
  if (!target.given() || target.is_stdout()) return;
  figures::refuse_same_file(source, target.path, target.option);
  recording::output_path(target.path, target.replace);
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
