#include "app/window/settings.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <nlohmann/json.hpp>

namespace keyscope::window {
namespace {

namespace fs = std::filesystem;

// Empty where there is no home.
fs::path settings_path() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config != nullptr && *config == '/') return fs::path(config) / "keyscope" / "window.json";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return {};
  return fs::path(home) / ".config" / "keyscope" / "window.json";
}

}  // namespace

Settings load_settings() {
  Settings settings;
  std::ifstream file(settings_path());
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (json.is_object() && json.contains("light") && json["light"].is_boolean())
    settings.light = json["light"];
  return settings;
}

void save_settings(const Settings& settings) {
  const fs::path path = settings_path();
  if (path.empty()) return;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  const fs::path part = path.string() + ".part";
  {
    std::ofstream file(part);
    file << nlohmann::json({{"light", settings.light}}).dump(2) << "\n";
    if (!file.flush()) return;
  }
  fs::rename(part, path, error);
}

}  // namespace keyscope::window
