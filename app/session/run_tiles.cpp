#include "app/session/run_tiles.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/catalogue.hpp"
#include "app/session/jobs.hpp"
#include "app/session/session.hpp"
#include "base/errors.hpp"

namespace keyscope::session {

bool is_of_one_run(std::string_view view) {
  if (view == kKeyspaceView) return true;
  return is_figure_view(view) && !figures::shows_several_runs(view);
}

TileTitle tile_title(const RunTile& tile) {
  const recording::RunPlan& plan = tile.run().plan;
  TileTitle title{plan.name, "full cache", {}};
  if (plan.policy != "none") title.budget = fmt::format("N = {}", format_count(plan.budget));
  if (tile.id.source > 0) title.budget += ", earlier";
  if (tile.n_seen > 0)
    title.kept =
        fmt::format("{} of {}", format_count(tile.n_kept), format_count(tile.n_seen));
  return title;
}

void show_points(RunTile& tile, std::shared_ptr<const HeadPoints> points, std::int64_t block) {
  if (points == tile.points && block == tile.block) return;
  tile.points = std::move(points);
  tile.block = block;
  tile.n_seen = tile.n_kept = 0;
  if (!tile.points || block < 0 || block >= tile.points->n_blocks()) return;
  tile.n_seen = tile.points->seen[static_cast<std::size_t>(block)];
  const auto first = tile.points->trace.evicted_at.begin();
  tile.n_kept =
      std::count_if(first, first + tile.n_seen, [&](std::int32_t gone) { return gone < 0 || gone > block; });
}

// Runs beside the selected one: which, and how the session comes to what their tiles show.

namespace {

// A job of a kind of its own for every run, so that none replaces another one's.
std::string job_of(const char* what, const RunId& id) {
  return fmt::format("{} of run {} of {}", what, id.run, id.source);
}

}  // namespace

bool SessionState::comparing() const { return loaded() && !beside.empty() && is_of_one_run(view); }

RunTile selected_tile(const SessionState& state) {
  RunTile tile;
  tile.id = {0, state.selection.run};
  tile.selected = true;
  tile.recording = state.recording;
  tile.info = state.info;
  tile.block = state.selection.block;
  tile.points = state.points;
  tile.picture = state.picture;
  tile.shown = state.shown;
  tile.reading = state.reading;
  tile.drawing = state.drawing;
  tile.making = state.making;
  return tile;
}

std::string about_export(const SessionState& state) {
  if (!state.comparing()) return {};
  const std::string& selected = state.run().plan.name;
  if (state.view != kKeyspaceView) return fmt::format("of the runs side by side: {} alone", selected);
  const bool earlier = std::ranges::any_of(state.beside, [](const RunId& id) { return id.source > 0; });
  return fmt::format("pictures and numbers: a panel for each run{}; tokens: those of {}",
                     earlier ? " of this recording, none for those of earlier ones" : "", selected);
}

void Session::list_choices() {
  std::vector<RecordingInfoPtr> earlier;
  for (const EarlierRun& run : state_.earlier) earlier.push_back(run.recording->info());
  state_.choices = run_choices(*state_.info, earlier, state_.selection.layer, state_.selection.kv_head);
}

// Those of the open recording: a file is made of one.
std::vector<int> Session::runs_of_export() const {
  std::vector<int> runs;
  for (const RunTile& tile : state_.tiles)
    if (tile.id.source == 0) runs.push_back(tile.id.run);
  return runs.size() > 1 ? runs : std::vector<int>();
}

//   throws UsageError on what there is not, and on more than can stand side by side
void Session::set_beside_by_name(const std::vector<std::string>& names) {
  state_.beside.clear();
  for (const std::string& name : names) {
    const RunId id{0, figures::find_run(*state_.info, name)};
    if (id.run == state_.selection.run)
      throw UsageError(fmt::format("run {} is selected, so that it cannot stand beside itself", name));
    if (std::ranges::find(state_.beside, id) == state_.beside.end()) state_.beside.push_back(id);
  }
  if (state_.beside.size() > kMostBeside) {
    state_.beside.clear();
    throw UsageError(fmt::format("{} runs cannot stand beside {}; at most {} can", names.size(),
                                 state_.run().plan.name, kMostBeside));
  }
  std::ranges::sort(state_.beside);
}

void Session::toggle_beside(RunId id) {
  if (!state_.loaded()) return;
  list_choices();
  const auto choice = std::ranges::find(state_.choices, id, &RunChoice::id);
  if (choice == state_.choices.end()) return;
  const auto there = std::ranges::find(state_.beside, id);
  std::string refusal = choice->refusal;
  if (id == RunId{0, state_.selection.run}) refusal = "it is selected; another run can stand beside it";
  if (refusal.empty() && state_.beside.size() == kMostBeside)
    refusal = fmt::format("{} runs stand side by side already", kMostBeside + 1);
  if (there != state_.beside.end()) {
    state_.beside.erase(there);
  } else if (refusal.empty()) {
    state_.beside.push_back(id);
    std::ranges::sort(state_.beside);
    if (!is_of_one_run(state_.view))
      state_.notice = {
          choice->name + " stands beside in the views of one run; this one is of all or of text.", false};
  } else {
    state_.notice = {fmt::format("{}: {}.", choice->name, refusal), false};
    return;
  }
  want_beside();
  note_moment();
}

// Makes every tile show what is selected: from the caches, or by asking workers for it.
void Session::want_beside() {
  if (!state_.comparing()) {
    state_.tiles.clear();
    tile_work_.clear();
    return;
  }
  arrange_tiles();
  for (RunTile& tile : state_.tiles) tile.selected ? show_selected(tile) : want_tile(tile);
}

// Tiles that stay keep what they show.
void Session::arrange_tiles() {
  std::vector<RunId> ids = state_.beside;
  ids.push_back({0, state_.selection.run});
  std::ranges::sort(ids);
  std::erase_if(tile_work_,
                [&](const auto& work) { return std::ranges::find(ids, work.first) == ids.end(); });
  std::vector<RunTile> tiles;
  for (const RunId& id : ids) {
    const auto before = std::ranges::find(state_.tiles, id, &RunTile::id);
    RunTile tile = before != state_.tiles.end() ? std::move(*before) : RunTile{};
    tile.id = id;
    tile.selected = id == RunId{0, state_.selection.run};
    tile.recording =
        id.source == 0 ? state_.recording : state_.earlier[static_cast<std::size_t>(id.source) - 1].recording;
    tile.info = id.source == 0 ? state_.info : tile.recording->info();
    tiles.push_back(std::move(tile));
  }
  state_.tiles = std::move(tiles);
}

void Session::show_selected(RunTile& tile) const {
  show_points(tile, state_.points, state_.selection.block);
  tile.refusal.clear();
  tile.picture = state_.picture;
  tile.shown = state_.shown;
  tile.reading = state_.reading;
  tile.drawing = state_.drawing;
  tile.making = state_.making;
}

void Session::want_tile(RunTile& tile) {
  tile.reading = tile.drawing = tile.making = false;
  tile.refusal = tile.id.source == 0 ? std::string()
                                     : comparison_refusal(*state_.info, *tile.info, state_.selection.layer,
                                                          state_.selection.kv_head);
  if (tile.refusal.empty() && tile.run().blocks_done == 0) tile.refusal = "no block yet";
  if (tile.refusal.empty()) want_tile_points(tile);
  if (!tile.refusal.empty()) {
    show_points(tile, nullptr, -1);
    tile.picture.reset();
    tile.shown = {};
    return;
  }
  if (state_.view == kKeyspaceView)
    want_tile_picture(tile);
  else
    want_tile_figure(tile);
}

// One basis per head for all: the open recording's, in which the selected run is shown.
void Session::want_tile_points(RunTile& tile) {
  const HeadKey head{tile.id.run, state_.selection.layer, state_.selection.kv_head, tile.id.source};
  auto cached = points_.find(head);
  if (!cached && tile.points && tile.points->head == head) cached = tile.points;
  show_points(tile, cached ? cached : tile.points,
              matching_block(state_.run(), state_.selection.block, tile.run()));
  TileWork& work = tile_work_[tile.id];
  const auto asked = std::pair(head, tile.run().n_tokens);
  tile.reading = !cached || cached->sketched || cached->n_tokens < tile.run().n_tokens;
  if (!tile.reading) return;
  if (work.points_asked == asked) {
    tile.refusal = work.points_error;
    tile.reading = tile.refusal.empty();
    return;
  }
  work.points_asked = asked;
  work.points_error.clear();
  settler_.post(job_of("points", tile.id), [inbox = inbox_, bases = bases_, own = state_.recording,
                                            own_info = state_.info, recording = tile.recording,
                                            info = tile.info, earlier = cached, head, document = document_] {
    guarded(
        [&] {
          auto basis = bases->get(*own, *own_info, head.layer, head.kv_head);
          inbox->put(PointsRead{document,
                                read_head_points(*recording, *info, head, std::move(basis), earlier.get())});
        },
        [&](std::string what) {
          inbox->put(PointsFailed{document, head, std::move(what)});
        });
  });
}

void Session::take(PointsFailed&& result) {
  if (result.document != document_) return;
  if (result.head == state_.head()) {
    state_.reading = false;
    state_.notice = {std::move(result.what), true, true};
    return want_beside();
  }
  const auto work = tile_work_.find({result.head.source, result.head.run});
  if (work == tile_work_.end() || !work->second.points_asked ||
      work->second.points_asked->first != result.head)
    return;
  work->second.points_error = std::move(result.what);
  want_beside();
}

// As the selected run's: at once where that costs less than a frame.
void Session::want_tile_picture(RunTile& tile) {
  if (!tile.points) return;
  const PictureKey key{tile.points->head, tile.points->n_tokens,
                       std::min(tile.block, tile.points->n_blocks() - 1), state_.look};
  if (tile.picture && tile.picture->key == key && tile.picture->points == tile.points) return;
  TileWork& work = tile_work_[tile.id];
  if (!asks_for_work(key.look)) {
    work.picture_asked.reset();
    tile.picture = make_picture(*tile.recording, *tile.info, tile.points, key, *work.queries);
    return;
  }
  tile.drawing = true;
  if (work.picture_asked == key) return;
  work.picture_asked = key;
  reader_.post(
      job_of("picture", tile.id), [inbox = inbox_, recording = tile.recording, info = tile.info,
                                   queries = work.queries, points = tile.points, key, document = document_] {
        inbox->put(PictureMade{document, make_picture_anyway(*recording, *info, points, key, *queries)});
      });
}

RunTile* Session::tile_beside(const HeadKey& head) {
  const auto tile = std::ranges::find(state_.tiles, RunId{head.source, head.run}, &RunTile::id);
  return tile != state_.tiles.end() && !tile->selected ? &*tile : nullptr;
}

// A late one is shown as well, as the selected run's is.
void Session::give_picture(RunTile& tile, std::shared_ptr<const KeyspacePicture> picture) {
  TileWork& work = tile_work_[tile.id];
  if (work.picture_asked == picture->key) work.picture_asked.reset();
  if (picture->key.look == state_.look) tile.picture = std::move(picture);
  want_beside();
}

void Session::want_tile_figure(RunTile& tile) {
  const Selection about{tile.id.run, state_.selection.layer, state_.selection.kv_head, tile.block};
  const MapChoice map =
      effective_choice(*tile.info, {state_.measure, tile.id.source == 0 ? state_.reference : -1}, about.run);
  FigureKey key = figure_key(*tile.info, about, state_.view, map, state_.figure_settings);
  key.source = tile.id.source;
  if (tile.shown.key == key) return;
  if (const MadeFigure* made = figures_.find(key)) {
    tile.shown = *made;
    return;
  }
  if (tile.shown.key.name != key.name) tile.shown = {};
  tile.making = true;
  TileWork& work = tile_work_[tile.id];
  if (work.figure_asked == key) return;
  work.figure_asked = key;
  ask_for_figure(job_of("figure", tile.id), tile.recording, tile.info, key);
}

void Session::forget_asked(const FigureKey& key) {
  for (auto& [id, work] : tile_work_)
    if (work.figure_asked == key) work.figure_asked.reset();
}

// The points of the selected head: read, or sketched first and settled after.

// Makes `points` the selected head's: from the cache, or by asking the reader for it.
void Session::want_points() {
  want_story();
  if (!state_.loaded()) return;
  list_choices();
  const HeadKey head = state_.head();
  auto cached = points_.find(head);
  if (!cached && state_.points && state_.points->head == head)
    cached = state_.points;  // others took its room
  if (cached) state_.points = cached;
  state_.reading = !cached || cached->n_tokens < state_.run().n_tokens;
  state_.settling = cached && cached->sketched;
  if (state_.reading)
    post_points(head);
  else if (state_.settling)
    settle_points();
  want_picture();
}

// Side by side runs lie along the same axes, so that none is sketched along others.
void Session::post_points(const HeadKey& head) {
  const bool may_sketch = !state_.comparing() && worth_sketching(*state_.info);
  reader_.post("points", [inbox = inbox_, bases = bases_, recording = state_.recording, info = state_.info,
                          earlier = points_.find(head), may_sketch, head, document = document_] {
    guarded(
        [&] {
          auto basis = bases->find(*info, head.layer, head.kv_head);
          if (!basis && !earlier && may_sketch)
            return inbox->put(PointsRead{document, sketch_head_points(*recording, *info, head)});
          if (!basis) basis = bases->get(*recording, *info, head.layer, head.kv_head);
          inbox->put(PointsRead{document,
                                read_head_points(*recording, *info, head, std::move(basis), earlier.get())});
        },
        [&](std::string what) {
          inbox->put(PointsFailed{document, head, std::move(what)});
        });
  });
}

// Beside the reader, so that whoever goes on to the next head does not wait for this one's basis, and not at
// once, so that whoever goes on quickly does not share the processor with it. Where it fails, the sketch is
// what there is.
void Session::settle_points() {
  constexpr std::chrono::milliseconds kStay{100};
  if (settling_asked_ == state_.points) return;
  settling_asked_ = state_.points;
  settler_.post(
      "points",
      [inbox = inbox_, bases = bases_, recording = state_.recording, info = state_.info,
       sketch = state_.points, document = document_] {
        guarded(
            [&] {
              const HeadKey& head = sketch->head;
              auto basis = bases->get(*recording, *info, head.layer, head.kv_head);
              inbox->put(PointsRead{
                  document, read_head_points(*recording, *info, head, std::move(basis), sketch.get())});
            },
            [&](std::string what) {
              auto kept = std::make_shared<HeadPoints>(*sketch);
              kept->sketched = false;
              inbox->put(PointsRead{document, std::move(kept)});
              inbox->put(Notice{std::move(what), true});
            });
      },
      kStay);
}

void Session::take(PointsRead&& result) {
  if (result.document != document_) return;
  const auto known = points_.find(result.points->head);
  const bool is_late = known && result.points->sketched && known->n_tokens >= result.points->n_tokens;
  if (!is_late) points_.put(result.points);
  want_points();
}

// How the session comes to the picture of the key space.

void Session::want_picture() {
  want_own_picture();
  want_beside();
}

// Makes `picture` what is selected, at once where it costs less than a frame, else by asking the reader for
// it. What is shown meanwhile is the picture before it.
void Session::want_own_picture() {
  state_.drawing = false;
  const auto& points = state_.points;
  if (!state_.loaded() || !points || state_.view != kKeyspaceView) return;
  const PictureKey key{points->head, points->n_tokens,
                       std::min(state_.selection.block, points->n_blocks() - 1), state_.look};
  if (state_.picture && state_.picture->key == key && state_.picture->points == points) return;
  if (!asks_for_work(key.look)) {
    picture_asked_.reset();
    state_.picture = make_picture(*state_.recording, *state_.info, points, key, *queries_);
    return;
  }
  state_.drawing = true;
  if (picture_asked_ == key) return;
  picture_asked_ = key;
  reader_.post("picture", [inbox = inbox_, recording = state_.recording, info = state_.info,
                           queries = queries_, points, key, document = document_] {
    inbox->put(PictureMade{document, make_picture_anyway(*recording, *info, points, key, *queries)});
  });
}

// One that comes late, when another moment is asked for already, is later than what is shown: without it,
// nothing would move while blocks go by faster than pictures are made.
void Session::take(PictureMade&& result) {
  if (result.document != document_) return;
  if (picture_asked_ == result.picture->key) picture_asked_.reset();
  if (RunTile* tile = tile_beside(result.picture->key.head)) {
    give_picture(*tile, std::move(result.picture));
    return;
  }
  if (result.picture->key.look == state_.look) state_.picture = std::move(result.picture);
  want_picture();
}

}  // namespace keyscope::session
