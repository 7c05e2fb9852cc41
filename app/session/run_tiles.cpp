#include "app/session/run_tiles.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/catalogue.hpp"
#include "app/session/session.hpp"
#include "base/errors.hpp"
#include "base/jobs.hpp"
#include "base/text.hpp"

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
    title.kept = fmt::format("{} of {}", format_count(tile.n_kept), format_count(tile.n_seen));
  return title;
}

void show_points(RunTile& tile, std::shared_ptr<const HeadPoints> points, std::int64_t block) {
  if (points == tile.points && block == tile.block) return;
  tile.points = std::move(points);
  tile.block = block;
  tile.n_seen = tile.n_kept = 0;
  if (!tile.points || block < 0 || block >= tile.points->n_blocks()) return;
  tile.n_seen = tile.points->seen[block];
  const auto first = tile.points->trace.evicted_at.begin();
  tile.n_kept =
      std::count_if(first, first + tile.n_seen, [&](std::int32_t gone) { return gone < 0 || gone > block; });
}

const RunTile::Figure& RunTile::figure(std::string_view view) const {
  static const Figure none;
  const auto found = figures.find(view);
  return found != figures.end() ? found->second : none;
}

bool RunTile::waiting() const {
  return reading || settling || drawing ||
         std::ranges::any_of(figures, [](const auto& figure) { return figure.second.making; });
}

// Which runs stand side by side.

bool SessionState::comparing(std::string_view in) const {
  return loaded() && !beside.empty() && is_of_one_run(in);
}

std::vector<RunTile> SessionState::tiles_of(std::string_view in) const {
  if (comparing(in)) return tiles;
  return {selected()};
}

const RunTile& SessionState::selected() const { return *std::ranges::find_if(tiles, &RunTile::selected); }

void Session::list_choices() {
  std::vector<RecordingInfoPtr> earlier;
  earlier.reserve(state_.earlier.size());
  for (const EarlierRun& run : state_.earlier) earlier.push_back(run.recording->info());
  state_.choices = run_choices(*state_.info, earlier, state_.selection.layer, state_.selection.kv_head);
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
  want_shown();
  note_snapshot();
}

// What the tiles show: from the caches, or by asking workers for it.

namespace {

// The kind of a tile's job. Runs beside the selected one have kinds of their own, so that none replaces
// another one's; of the selected run what is asked for last replaces what was asked for before, whichever run
// that was.
std::string job_of(const std::string& what, const RunTile& tile) {
  return tile.selected ? what : fmt::format("{} of run {} of {}", what, tile.id.run, tile.id.source);
}

// One that is selected now and has nothing to show yet goes on with what was shown before.
void show_meanwhile(const RunTile& before, RunTile& tile) {
  if (!tile.points) show_points(tile, before.points, before.block);
  if (!tile.picture) tile.picture = before.picture;
  for (const auto& [name, figure] : before.figures) tile.figures.try_emplace(name, figure);
}

}  // namespace

// Makes the tiles and the story show what is selected. The selected run comes first.
void Session::want_shown() {
  want_story();
  want_difference();
  if (!state_.loaded()) return;
  list_choices();
  arrange_tiles();
  for (const bool selected : {true, false})
    for (RunTile& tile : state_.tiles)
      if (tile.selected == selected) want_tile(tile);
}

// Tiles that stay keep what they show. What the selected one has asked for, by jobs of the same kinds, is
// asked for by the one that is selected now.
void Session::arrange_tiles() {
  const RunId selected{0, state_.selection.run};
  const bool compares = std::ranges::any_of(state_.visible, is_of_one_run);
  std::vector<RunId> ids = compares ? state_.beside : std::vector<RunId>();
  ids.push_back(selected);
  std::ranges::sort(ids);
  const RunTile shown = state_.selected();
  if (shown.id != selected) work_[selected].asked = std::exchange(work_[shown.id].asked, {});
  std::erase_if(work_, [&](const auto& work) { return std::ranges::find(ids, work.first) == ids.end(); });
  const std::vector<RunTile> before = std::exchange(state_.tiles, {});
  for (const RunId& id : ids) {
    RunTile& tile = state_.tiles.emplace_back();
    if (const auto same = std::ranges::find(before, id, &RunTile::id); same != before.end()) tile = *same;
    tile.id = id;
    tile.selected = id == selected;
    tile.recording = id.source == 0 ? state_.recording : state_.earlier[id.source - 1].recording;
    tile.info = id.source == 0 ? state_.info : tile.recording->info();
    if (tile.selected) show_meanwhile(shown, tile);
  }
}

void Session::want_tile(RunTile& tile) {
  tile.reading = tile.settling = tile.drawing = false;
  std::erase_if(tile.figures, [&](const auto& figure) { return !is_visible(figure.first); });
  tile.refusal = tile.id.source == 0 ? std::string()
                                     : comparison_refusal(*state_.info, *tile.info, state_.selection.layer,
                                                          state_.selection.kv_head);
  if (!tile.selected && tile.refusal.empty() && tile.run().blocks_done == 0) tile.refusal = "no block yet";
  if (tile.refusal.empty()) want_points(tile);
  if (!tile.refusal.empty()) {
    show_points(tile, nullptr, -1);
    tile.picture.reset();
    tile.figures.clear();
    return;
  }
  if (is_visible(kKeyspaceView)) want_picture(tile);
  for (const std::string& view : state_.visible)
    if (is_figure_view(view) && (tile.selected || is_of_one_run(view))) want_figure(tile, view);
}

// Runs that stand side by side lie along the same axes, so that a sketch, which has its own, will not do.
void Session::want_points(RunTile& tile) {
  const HeadKey head{tile.id.run, state_.selection.layer, state_.selection.kv_head, tile.id.source};
  auto known = points_.find(head);
  if (!known && tile.points && tile.points->head == head) known = tile.points;  // others took its room
  show_points(tile, known ? known : tile.points,
              tile.selected ? state_.selection.block
                            : matching_block(state_.run(), state_.selection.block, tile.run()));
  const bool sketched = known && known->sketched;
  const bool old_axes = known && outgrown(known->basis->n_tokens, figures::tokens_to_fit(*state_.info),
                                          *state_.info, state_.grows);
  tile.reading =
      !known || known->n_tokens < tile.run().n_tokens || old_axes || (sketched && state_.tiles.size() > 1);
  tile.settling = sketched && !tile.reading;
  Asked& asked = work_[tile.id].asked;
  if (!tile.reading) asked.points.reset();
  if (tile.settling) return settle_points(tile);
  if (!tile.reading) return;
  if (asked.points != std::pair(head, tile.run().n_tokens)) return read_points(tile, head, std::move(known));
  tile.reading = asked.points_error.empty();
  if (!tile.selected) tile.refusal = asked.points_error;  // of the selected run a notice said it
}

// One basis per head for all: the open recording's. Runs beside the selected one are read at leisure.
void Session::read_points(const RunTile& tile, const HeadKey& head,
                          std::shared_ptr<const HeadPoints> earlier) {
  Asked& asked = work_[tile.id].asked;
  asked.points = std::pair(head, tile.run().n_tokens);
  asked.points_error.clear();
  const bool may_sketch = state_.tiles.size() == 1 && worth_sketching(*tile.info);
  JobQueue& queue = tile.selected ? reader_ : settler_;
  queue.post(
      job_of("points", tile), [inbox = inbox_, bases = bases_, own = state_.recording, own_info = state_.info,
                               recording = tile.recording, info = tile.info, earlier = std::move(earlier),
                               may_sketch, head, grows = state_.grows, document = document_] {
        guarded(
            [&] {
              auto basis = bases->find(*own_info, head.layer, head.kv_head, grows);
              if (!basis && !earlier && may_sketch)
                return inbox->put(PointsRead{document, sketch_head_points(*recording, *info, head)});
              if (!basis) basis = bases->get(*own, *own_info, head.layer, head.kv_head, grows);
              inbox->put(PointsRead{
                  document, read_head_points(*recording, *info, head, std::move(basis), earlier.get())});
            },
            [&](std::string what) {
              inbox->put(PointsFailed{document, head, std::move(what)});
            });
      });
}

// Beside the reader, so that the next head does not wait for this one's basis, and not at once, so that going
// on quickly does not share the processor with it. Where it fails, the sketch is what there is.
void Session::settle_points(const RunTile& tile) {
  constexpr std::chrono::milliseconds kStay{100};
  Asked& asked = work_[tile.id].asked;
  if (asked.settled == tile.points) return;
  asked.settled = tile.points;
  settler_.post(
      job_of("points", tile),
      [inbox = inbox_, bases = bases_, recording = tile.recording, info = tile.info, sketch = tile.points,
       grows = state_.grows, document = document_] {
        guarded(
            [&] {
              const HeadKey& head = sketch->head;
              auto basis = bases->get(*recording, *info, head.layer, head.kv_head, grows);
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
  const HeadKey head = result.points->head;
  const auto known = points_.find(head);
  const bool is_late = known && result.points->sketched && known->n_tokens >= result.points->n_tokens;
  if (!is_late) points_.put(std::move(result.points));
  if (const auto work = work_.find({head.source, head.run}); work != work_.end()) {
    auto& asked = work->second.asked.points;
    if (asked && asked->first == head) asked.reset();
  }
  want_shown();
}

void Session::take(PointsFailed&& result) {
  if (result.document != document_) return;
  const auto work = work_.find({result.head.source, result.head.run});
  if (work == work_.end()) return;
  if (const auto& asked = work->second.asked.points; !asked || asked->first != result.head) return;
  if (work->first == state_.selected().id) state_.notice = {result.what, true, true};
  work->second.asked.points_error = std::move(result.what);
  want_shown();
}

// With the run that it is compared with, where colours say what both keep.
figures::KeyspaceLook Session::look_of(const RunTile& tile) const {
  figures::KeyspaceLook look = state_.look;
  look.reference = -1;
  if (look.colour == figures::KeyColour::kKept)
    look.reference = figures::other_run(*tile.info, tile.id.run, tile.id.source == 0 ? state_.reference : -1);
  return look;
}

// At once where it costs less than a frame, else by asking the reader for it.
void Session::want_picture(RunTile& tile) {
  if (!tile.points) return;
  const PictureKey key{tile.points->head, tile.points->n_tokens,
                       std::min(tile.block, tile.points->n_blocks() - 1), look_of(tile)};
  if (tile.picture && tile.picture->key == key && tile.picture->points == tile.points) return;
  TileWork& work = work_[tile.id];
  if (!asks_for_work(key.look)) {
    work.asked.picture.reset();
    tile.picture = make_picture(*tile.recording, tile.info, tile.points, key, *work.queries);
    return;
  }
  tile.drawing = true;
  if (work.asked.picture == key) return;
  work.asked.picture = key;
  reader_.post(
      job_of("picture", tile), [inbox = inbox_, recording = tile.recording, info = tile.info,
                                queries = work.queries, points = tile.points, key, document = document_] {
        inbox->put(PictureMade{document, make_picture_anyway(*recording, info, points, key, *queries)});
      });
}

// One that comes late, when another block or head is asked for already, is later than what is shown: without
// it, nothing would move while blocks go by faster than pictures are made.
void Session::take(PictureMade&& result) {
  if (result.document != document_) return;
  const PictureKey& key = result.picture->key;
  for (RunTile& tile : state_.tiles) {
    auto& asked = work_[tile.id].asked.picture;
    const bool wanted = asked == key;
    if (wanted) asked.reset();
    if ((wanted || tile.id == RunId{key.head.source, key.head.run}) && key.look == look_of(tile))
      tile.picture = result.picture;
  }
  want_shown();
}

// Of a live run it is made again for what has come meanwhile when the one in work is done.
void Session::want_figure(RunTile& tile, const std::string& view) {
  const Selection about{tile.id.run, state_.selection.layer, state_.selection.kv_head, tile.block};
  const MapChoice map =
      effective_choice(*tile.info, {state_.measure, tile.id.source == 0 ? state_.reference : -1}, about.run);
  FigureKey key = figure_key(*tile.info, about, view, map, state_.figure_settings);
  key.source = tile.id.source;
  RunTile::Figure& figure = tile.figures[view];
  figure.making = false;
  if (figure.made.key == key) return;
  if (const auto made = figures_.find(key)) {
    figure.made = *made;
    return;
  }
  figure.making = true;
  auto& asked = work_[tile.id].asked.figures[view];
  if (asked == key) return;
  asked = key;
  const std::string kind = job_of(view, tile);
  const auto job = std::make_shared<JobWatch>("making " + key.name, "heads");
  const auto before = std::exchange(figure_jobs_[kind], state_.jobs.emplace_back(job));
  const bool replaced = figure_maker_.post(
      kind, [inbox = inbox_, recording = tile.recording, info = tile.info, key, document = document_, job] {
        inbox->put(FigureMade{document, make_figure(*recording, *info, key, *job), job});
      });
  if (replaced) forget_job(before);
}

// One that was cancelled is neither kept nor asked for again before something else has been shown.
void Session::take(FigureMade&& result) {
  forget_job(result.job);
  if (result.document != document_) return;
  const bool cancelled = result.job->cancelled() && !result.made.figure;
  if (cancelled) result.made.error = "Cancelled. Choose another view and come back to have it made.";
  for (RunTile& tile : state_.tiles) {
    auto& asked = work_[tile.id].asked.figures;
    const std::string& name = result.made.key.name;
    if (const auto found = asked.find(name); found == asked.end() || found->second != result.made.key)
      continue;
    asked.erase(name);
    if (cancelled) tile.figures[name].made = result.made;
  }
  if (!cancelled) figures_.put(std::make_shared<const MadeFigure>(std::move(result.made)));
  want_shown();
}

}  // namespace keyscope::session
