#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/figures/keyspace_look.hpp"
#include "app/session/figure_settings.hpp"
#include "app/session/run_choice.hpp"
#include "app/session/selection.hpp"

namespace keyscope::session {

// How a recording was looked at when it was left.
struct RememberedView {
  SelectionRequest selection;
  std::string view;     // one of view_choices()
  std::string measure;  // id of one of measure_choices()
  figures::KeyspaceLook look = {};
  FigureSettings settings = {};
  bool operator==(const RememberedView&) const = default;
};

// What is to stay as it is when a recording is opened, whatever is remembered of it: what the command line
// asked for.
struct Keep {
  bool view = false;
  bool look = false;
  bool settings = false;  // of figures
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

}  // namespace keyscope::session
