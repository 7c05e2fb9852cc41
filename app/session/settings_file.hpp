#pragma once

#include <cstdint>
#include <filesystem>

#include <nlohmann/json_fwd.hpp>

namespace keyscope::session {

// $XDG_CONFIG_HOME/keyscope, or ~/.config/keyscope without it; empty where there is no home.
std::filesystem::path settings_folder();

// What stands in a settings file. Anyone may have written it: where it is missing, no regular file, larger
// than kMostSettingsBytes or not one JSON object, the result is an empty object.
nlohmann::json read_settings(const std::filesystem::path& path);

// Replaces the file in one step, and makes its folder; a reader sees the old text or the new one. Fails
// silently, and leaves the old file: a read-only home is no reason to trouble anyone who looks at a
// recording.
void write_settings(const std::filesystem::path& path, const nlohmann::json& settings);

inline constexpr std::uintmax_t kMostSettingsBytes = 1 << 20;

}  // namespace keyscope::session
