#include "app/session/settings_file.hpp"

#include <cstdlib>
#include <fstream>
#include <string>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace keyscope::session {

namespace fs = std::filesystem;

fs::path settings_folder() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  // The specification has relative paths ignored.
  if (config != nullptr && *config == '/') return fs::path(config) / "keyscope";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return {};
  return fs::path(home) / ".config" / "keyscope";
}

nlohmann::json read_settings(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return nlohmann::json::object();  // a pipe would never end
  if (fs::file_size(path, error) > kMostSettingsBytes || error) return nlohmann::json::object();
  std::ifstream file(path);
  auto json = nlohmann::json::parse(file, nullptr, false);
  return json.is_object() ? json : nlohmann::json::object();
}

void write_settings(const fs::path& path, const nlohmann::json& settings) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  // Two windows may write at the same moment, each its own part.
  const fs::path part = fmt::format("{}.{}.part", path.string(), getpid());
  bool written = false;
  {
    std::ofstream file(part);
    // Paths need not be UTF-8.
    file << settings.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    written = !file.flush().fail();
  }
  if (written) fs::rename(part, path, error);
  if (!written || error) fs::remove(part, error);
}

}  // namespace keyscope::session
