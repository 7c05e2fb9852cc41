#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/figures/figure.hpp"
#include "app/figures/registry.hpp"
#include "app/session/figure_settings.hpp"
#include "app/session/head_map.hpp"
#include "app/session/selection.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::session {

// The views that the window draws itself; all others are figures by their registered names.
inline constexpr std::string_view kKeyspaceView = "keyspace";
inline constexpr std::string_view kTextView = "text";

// What the middle of the window can show.
struct ViewChoice {
  std::string name;   // as on the command line: of the figure, or of a view of the window's own
  std::string label;  // "Key space"
};
// All of them, those that are asked for most first: of these the first `n_view_tabs()` have a tab.
const std::vector<ViewChoice>& view_choices();
std::size_t n_view_tabs();
bool is_view(std::string_view name);
bool is_figure_view(std::string_view name);

// A figure and all that it depends on in one recording: equal keys mean equal figures.
struct FigureKey {
  std::string name;
  Selection selection;           // -1 where the figure is not about it
  std::int64_t blocks_done = 0;  // of all runs together, for a recording that grows
  FigureSettings settings = {};  // those that the figure understands
  MapChoice map = {};            // 0 and -1 where the figure is no map of heads
  int source = 0;                // as RunId's: whose run it is
  bool operator==(const FigureKey&) const = default;
};
//   map: from effective_choice
FigureKey figure_key(const recording::RecordingInfo& info, const Selection& selection, std::string_view name,
                     const MapChoice& map = {}, const FigureSettings& settings = {});

// The same question in the command line's words, and as its options: ` --run none --layer 3`.
figures::FigureRequest figure_request(const recording::RecordingInfo& info, const FigureKey& key);
std::string figure_options(const recording::RecordingInfo& info, const FigureKey& key);

// A figure that was made, or why it could not be.
struct MadeFigure {
  FigureKey key;
  std::shared_ptr<const figures::Figure> figure;  // null: see `error`
  std::string error;
};

}  // namespace keyscope::session
