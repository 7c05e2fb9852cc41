#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "app/session/head_points.hpp"
#include "app/session/keyspace_view.hpp"
#include "app/session/made_figures.hpp"
#include "app/session/selection.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::session {

// One run in a view: the selected one, or one beside it. While something is read or made, what was there
// before it stays.
struct RunTile {
  RunId id = {};
  bool selected = false;
  std::shared_ptr<const recording::Recording> recording = nullptr;
  RecordingInfoPtr info = nullptr;
  std::int64_t block = -1;   // of this run, that has seen as much as the selected one
  std::string refusal = {};  // why nothing of it can be shown at this head: "no layer 3"

  // The selected head. One that takes long is sketched first: while its basis and its mean queries are still
  // to come, `settling` is true.
  std::shared_ptr<const HeadPoints> points = nullptr;
  std::shared_ptr<const KeyspacePicture> picture = nullptr;  // of the key space
  // By their names: those of the views that can be seen.
  struct Figure {
    MadeFigure made = {};
    bool making = false;
  };
  std::map<std::string, Figure, std::less<>> figures = {};
  std::int64_t n_seen = 0, n_kept = 0;  // tokens by the end of `block`; 0: the head was not read
  bool reading = false, settling = false, drawing = false;

  const recording::RunInfo& run() const { return info->runs[id.run]; }
  const Figure& figure(std::string_view view) const;  // an empty one where there is none
  bool waiting() const;
};

// Whether a view is of one run, so that others can stand beside it; figures of all runs are not split, nor is
// the text.
bool is_of_one_run(std::string_view view);

// "keydiff", "N = 256", "256 of 1,006": what stands above a tile.
struct TileTitle {
  std::string name, budget, kept;  // kept: empty where the head was not read
};
TileTitle tile_title(const RunTile& tile);

// Puts a head's points and a block into a tile, and counts.
void show_points(RunTile& tile, std::shared_ptr<const HeadPoints> points, std::int64_t block);

}  // namespace keyscope::session
