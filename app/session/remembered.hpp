#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/figures/keyspace_data.hpp"
#include "app/session/made_figures.hpp"
#include "app/session/selection.hpp"

namespace keyscope::session {

// Where the window's panels and views lie.
struct Arrangement {
  std::string docking;              // by Dear ImGui; empty: by the layout of this name
  std::string layout;               // that it began with
  std::vector<std::string> views;   // that are open, of view_choices(); never empty
  std::vector<std::string> closed;  // panels that are not shown
  bool operator==(const Arrangement&) const = default;
};
Arrangement usual_arrangement();

// Those that the user gave names, one file each in `folder`. A name is 1 to 40 letters, digits, spaces,
// hyphens and underscores.
std::vector<std::string> arrangement_names(const std::filesystem::path& folder);
std::optional<Arrangement> read_arrangement(const std::filesystem::path& folder, const std::string& name);
bool is_arrangement_name(std::string_view name);
void write_arrangement(const std::filesystem::path& folder, const std::string& name,
                       const Arrangement& arrangement);

// How a recording was looked at when it was left.
struct RememberedView {
  SelectionRequest selection;
  std::string view;     // one of view_choices()
  std::string measure;  // id of one of measure_choices()
  figures::KeyspaceLook look = {};
  FigureSettings settings = {};
  Arrangement arrangement = {};  // without views: none is remembered
  bool operator==(const RememberedView&) const = default;
};

// What is to stay as it is when a recording is opened, whatever is remembered of it: what the command line
// asked for.
struct Keep {
  bool view = false;
  bool look = false;
  bool settings = false;  // of figures
  bool arrangement = false;
  bool all = false;  // as if it was never opened
};

// Kept in `folder`, one small file a recording, never beside the recording: that folder may be read-only, or
// someone else's. A recording goes by its absolute path. What is damaged or of another recording is as if it
// were not there; the kMostViews last ones are kept.
std::optional<RememberedView> recall_view(const std::filesystem::path& folder, const std::string& recording);
void remember_view(const std::filesystem::path& folder, const std::string& recording,
                   const RememberedView& view);

inline constexpr std::size_t kMostViews = 200;

// The remembered selection as far as the recording still has it, else the default one.
Selection remembered_selection(const recording::RecordingInfo& info, const RememberedView& remembered);

// The runs that stood beside it, as far as the recording still has them.
//   selected: the run that is selected now
std::vector<RunId> remembered_beside(const recording::RecordingInfo& info, int selected,
                                     const RememberedView& remembered);

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
