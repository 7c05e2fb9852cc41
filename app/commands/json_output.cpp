#include "app/commands/json_output.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/errors.hpp"
#include "app/commands/capture_run.hpp"

namespace keyscope::commands {

void refuse_existing_json(const std::string& target, bool force) {
  if (!target.empty() && target != "-") refuse_existing(target, force);
}

void write_json(const std::string& target, const nlohmann::ordered_json& json) {
  const std::string text = json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  if (target == "-") {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
      throw FileError("standard output: could not be written");
    return;
  }
  const std::string part = target + ".part";
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(part, target, error);
  if (!file || error) {
    std::filesystem::remove(part, error);
    throw FileError(
        fmt::format("{}: could not be written; is the disk full, or the folder read-only?", target));
  }
}

}  // namespace keyscope::commands
