#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "app/figures/labels.hpp"
#include "app/panels/panel_context.hpp"
#include "app/session/run_tiles.hpp"

namespace keyscope::window {

// Where up to four tiles lie in an area: equally large, on whole pixels, with gaps between them. Two stand
// side by side unless the area is upright, three in a row where it is wide, otherwise two above one, four in
// a square.
std::vector<Rect> tile_rects(const Rect& area, std::size_t n, float gap);

// Things that runs have one each of, such as their plots: those of runs that are no tiles any more are
// dropped, and one alone goes over to another run, so that what it drew is still there. Returns whether any
// was dropped.
template <typename Thing>
bool keep_with_runs(std::map<session::RunId, Thing>& things, const std::vector<session::RunTile>& tiles) {
  if (tiles.size() == 1 && things.size() == 1 && things.begin()->first != tiles.front().id) {
    auto thing = things.extract(things.begin());
    thing.key() = tiles.front().id;
    things.insert(std::move(thing));
  }
  const auto is_gone = [&](const auto& thing) {
    return std::ranges::find(tiles, thing.first, &session::RunTile::id) == tiles.end();
  };
  return std::erase_if(things, is_gone) > 0;
}

// The sign that a run has in figures of all runs; earlier runs take theirs after those of the recording.
figures::PolicyLooks::Look look_of(const session::SessionState& state, const session::RunId& id);

// Which tile is drawn first, so that others follow it in the same frame: the one under the mouse, and while a
// button is held the one that it was pressed in.
class LeadingTile {
 public:
  std::size_t among(const std::vector<Rect>& rects);

 private:
  std::size_t at_ = 0;
};

// The height of a tile's title, in pixels.
float tile_title_height(const PanelContext& context);

// What stands above a tile: the sign and name of its policy, its budget, how many keys are kept; a click
// selects the run, the cross takes it away. What has no room is left out from the end.
void draw_tile_title(PanelContext& context, const session::RunTile& tile, const Rect& rect);

// What runs have generated, below their tiles: the line's height, 0 while none has generated anything, and
// one run's line, its last words where not all have room. Beside a right answer that is known, tokens that
// hold a part of it and those that go wrong are marked.
float generated_height(const PanelContext& context, const std::vector<session::RunTile>& tiles);
void draw_generated(const PanelContext& context, const session::RunTile& tile, const Rect& line);

// Why a tile is empty, or that it is being read.
//   why: where the tile itself has no reason
void draw_tile_refusal(const PanelContext& context, const session::RunTile& tile, const Rect& rect,
                       const std::string& why = {});

// One of the tiles: where it lies, without its title.
Rect below_title(const PanelContext& context, const Rect& tile);

}  // namespace keyscope::window
