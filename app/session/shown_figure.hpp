#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/drawing/cairo_painter.hpp"
#include "app/figures/figure.hpp"
#include "app/figures/keyspace_data.hpp"
#include "app/session/head_map.hpp"
#include "app/session/made_figures.hpp"
#include "app/session/selection.hpp"
#include "app/session/tokens.hpp"
#include "base/jobs.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::session {

// What the screen shows of a panel, where that is not all of it.
struct ShownPanel {
  std::optional<figures::Extent> part;  // that was zoomed to
  std::vector<std::string> hidden;      // ids of the series that the legend hid
  figures::Orbit orbit = {};            // of space
  double hexagon = 0;                   // the radius of those that count keys, in units of x
  bool operator==(const ShownPanel&) const = default;
};

// One run of a view, as it is shown.
struct ShownRun {
  std::shared_ptr<const recording::Recording> recording;
  std::shared_ptr<const recording::RecordingInfo> info;
  RunId id;
  std::int64_t block = -1;
};

std::string shown_name(const ShownRun& run);  // "keydiff (earlier)"

// What a view shows, as far as a picture of it goes.
struct ShownView {
  std::string view;            // that has a picture
  Selection selection;         // of the selected run
  std::vector<ShownRun> runs;  // side by side, the selected one among them; never empty
  FigureSettings settings;
  MapChoice map;
  figures::KeyspaceLook look;              // of the key space
  std::shared_ptr<const TokenSet> tokens;  // that are selected, the others stand back; null: all are meant
  std::vector<ShownPanel> panels;          // of every run's figure; fewer: all of the others
};

// The figure of it: of several runs a panel (or more) for each, in the same axes and colours.
//   job: counts the heads that are read
//   throws as build_figure does; Cancelled
figures::Figure shown_figure(const ShownView& shown, JobWatch& job);

// What of a view is exported, and how a picture of it is drawn.
struct ExportChoice {
  bool all_runs = true;            // of those that stand side by side, else the selected one alone
  bool as_seen = true;             // the part that was zoomed to, without what the legend hid
  figures::PageOptions page = {};  // of pictures; `replace` goes for every file
  bool operator==(const ExportChoice&) const = default;
};

// A picture of it on a page as it will be written, and what it was made for.
struct Preview {
  int asked = 0;  // the number of the question
  figures::Image image;
  std::string error;  // why there is none
};

}  // namespace keyscope::session
