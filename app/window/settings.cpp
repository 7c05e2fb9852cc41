#include "app/window/settings.hpp"

#include <nlohmann/json.hpp>

#include "app/session/settings_file.hpp"

namespace keyscope::window {
namespace {

constexpr std::int64_t kLeastSide = 320, kMostSide = 16384;

std::filesystem::path file_in(const std::filesystem::path& folder) { return folder / "window.json"; }

// A side in pixels; 0 where there is none that could be one.
int side_in(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number_integer()) return 0;
  const auto side = found->get<std::int64_t>();
  return side >= kLeastSide && side <= kMostSide ? static_cast<int>(side) : 0;
}

}  // namespace

Settings load_settings(const std::filesystem::path& folder) {
  Settings settings;
  if (folder.empty()) return settings;
  const nlohmann::json json = session::read_settings(file_in(folder));
  const auto light = json.find("light");
  if (light != json.end() && light->is_boolean()) settings.light = light->get<bool>();
  settings.width = side_in(json, "width");
  settings.height = side_in(json, "height");
  if (settings.width == 0 || settings.height == 0) settings.width = settings.height = 0;
  return settings;
}

void save_settings(const std::filesystem::path& folder, const Settings& settings) {
  if (folder.empty()) return;
  session::write_settings(
      file_in(folder), {{"light", settings.light}, {"width", settings.width}, {"height", settings.height}});
}

}  // namespace keyscope::window
