// What panels and keys ask of the session.

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "analysis/similarity.hpp"
#include "app/drawing/animation.hpp"
#include "app/session/export_view.hpp"
#include "app/session/live.hpp"
#include "app/session/selection.hpp"
#include "app/session/session.hpp"
#include "base/errors.hpp"
#include "base/jobs.hpp"

namespace keyscope::session {

// A notice says what was asked for and is not there; what would be shown without a request is shown.
void Session::select_as_asked(const SelectionRequest& request) {
  const recording::RecordingInfo& info = *state_.info;
  state_.selection = resolve_selection(info, {});
  try {
    state_.selection = resolve_selection(info, request);
    if (request.measure) state_.measure = measure_index(figures::find_head_measure(*request.measure).id);
    if (request.reference) state_.reference = resolve_selection(info, {.run = request.reference}).run;
    if (request.token && (*request.token < 0 || *request.token >= state_.run().n_tokens))
      throw UsageError(fmt::format("there is no token {}; run {} has {} of them", *request.token,
                                   state_.run().plan.name, state_.run().n_tokens));
    state_.locked = request.token;
    set_beside_by_name(request.beside);
  } catch (const Error& error) {
    state_.notice = {error.what(), true};
  }
}

void Session::select(Selection selection) {
  if (!state_.loaded()) return;
  selection = clamp_selection(*state_.info, selection);
  if (selection == state_.selection) return;
  const bool other_run = selection.run != state_.selection.run;
  state_.beside = after_selecting(std::move(state_.beside), state_.selection.run, selection.run);
  state_.selection = selection;
  want_shown();
  if (other_run) {
    want_measures();
    make_map();
  }
  note_snapshot();
}

void Session::note_snapshot() {
  if (state_.loaded())
    history_.note({state_.selection, state_.view, state_.locked, state_.tokens, state_.beside});
}

void Session::go_to(const std::optional<SelectionHistory::Snapshot>& snapshot, const char* otherwise) {
  if (!state_.loaded()) return;
  if (!snapshot) {
    state_.notice = {otherwise, false};
    return;
  }
  const bool other_run = snapshot->selection.run != state_.selection.run;
  state_.following = state_.playing = false;
  state_.selection = clamp_selection(*state_.info, snapshot->selection);
  open_view(snapshot->view);
  state_.locked = snapshot->locked;
  state_.tokens = snapshot->tokens;
  state_.beside = snapshot->beside;
  want_shown();
  if (other_run) {
    want_measures();
    make_map();
  }
}

void Session::undo() { go_to(history_.undo(), "There is nothing to undo."); }
void Session::redo() { go_to(history_.redo(), "There is nothing to redo."); }

void Session::select_figure(std::int64_t figure) {
  if (!state_.figure_file) return;
  const std::int64_t last = std::ssize(state_.figure_file->figures) - 1;
  state_.figure = std::clamp<std::int64_t>(figure, 0, last);
}

void Session::select_run(int run) {
  if (!state_.loaded() || run < 0 || run >= static_cast<int>(state_.info->runs.size())) return;
  Selection selection = state_.selection;
  selection.run = run;
  // A run of which nothing was seen yet has no block; one that has some shows its end if none was chosen.
  if (selection.block < 0) selection.block = end_of_prompt(state_.info->runs[run]);
  state_.following = false;
  select(selection);
}

// A head whose rows were not recorded has nothing to show but the measures that are on the map already.
void Session::select_head(int layer, int kv_head) {
  if (state_.loaded() && !state_.info->heads.has(kv_head)) {
    state_.notice = {state_.info->heads.refusal(kv_head), false};
    return;
  }
  Selection selection = state_.selection;
  selection.layer = layer;
  selection.kv_head = kv_head;
  select(selection);
}

void Session::select_typed(const SelectionRequest& request) {
  if (!state_.loaded()) return;
  const std::string refusal = selection_refusal(*state_.info, state_.selection, request);
  if (!refusal.empty()) {
    state_.notice = {refusal, false};
    return;
  }
  Selection selection = state_.selection;
  selection.layer = request.layer.value_or(selection.layer);
  selection.kv_head = request.kv_head.value_or(selection.kv_head);
  selection.block = request.block.value_or(selection.block);
  if (request.block) state_.following = false;
  select(selection);
}

void Session::move_layer(int by) {
  if (!state_.loaded()) return;
  const auto& layers = state_.info->layers;
  const auto at = std::ranges::find(layers, state_.selection.layer) - layers.begin();
  const auto to = std::clamp<std::ptrdiff_t>(at + by, 0, std::ssize(layers) - 1);
  select_head(layers[to], state_.selection.kv_head);
}

void Session::move_kv_head(int by) {
  if (!state_.loaded()) return;
  const std::vector<int> heads = state_.info->kv_heads(state_.selection.layer);
  const auto at = std::ranges::find(heads, state_.selection.kv_head) - heads.begin();
  const auto to = std::clamp<std::ptrdiff_t>(at + by, 0, std::ssize(heads) - 1);
  select_head(state_.selection.layer, heads[to]);
}

void Session::set_block(std::int64_t block) {
  if (!state_.loaded() || state_.run().blocks_done == 0) return;
  state_.following = false;
  Selection selection = state_.selection;
  selection.block = std::clamp<std::int64_t>(block, 0, state_.run().blocks_done - 1);
  select(selection);
}

void Session::step_block(std::int64_t by) { set_block(state_.selection.block + by); }

void Session::show_last_block() {
  if (!state_.loaded()) return;
  set_block(state_.run().blocks_done - 1);
  const auto live = live_status();
  state_.following = live && live->going_on();
}

// The row that went first is held, so that its story says why.
bool Session::select_evidence_loss() {
  const auto& losses = state_.evidence_losses;
  const auto has_loss = [&](std::size_t run) { return run < losses.size() && losses[run].has_value(); };
  auto run = static_cast<std::size_t>(state_.selection.run);
  if (!has_loss(run))
    for (run = 0; run < losses.size() && !has_loss(run);) ++run;
  if (!has_loss(run)) return false;
  const measures::EvidenceLoss& loss = *losses[run];
  state_.following = state_.playing = false;
  state_.beside = after_selecting(std::move(state_.beside), state_.selection.run, static_cast<int>(run));
  state_.selection =
      clamp_selection(*state_.info, {static_cast<int>(run), loss.layer, loss.kv_head, loss.block});
  state_.locked = loss.position;
  state_.tokens = std::make_shared<const TokenSet>(state_.evidence);
  return true;
}

void Session::show_evidence_loss() {
  if (!state_.loaded()) return;
  if (!select_evidence_loss()) {
    state_.notice = {"No policy evicted anything of what the answer stands on.", false};
    return;
  }
  want_shown();
  want_measures();
  make_map();
  note_snapshot();
}

void Session::toggle_play() {
  if (!state_.loaded()) return;
  state_.playing = !state_.playing;
  // Playing from the end means from the beginning.
  if (state_.playing && state_.selection.block >= state_.run().blocks_done - 1) show_first_block();
}

void Session::play_on() {
  if (!state_.playing || !state_.loaded()) return;
  step_block(1);
  if (state_.selection.block >= state_.run().blocks_done - 1) state_.playing = false;
}

void Session::choose_view(std::string_view name) {
  if (!is_view(name) || state_.view == name) return;
  open_view(name);
  want_shown();
  note_snapshot();
}

// The view is looked at from now on. Until the window says which are covered by others, those that could be
// seen before still can.
void Session::open_view(std::string_view name) {
  state_.view = name;
  if (!is_visible(name)) state_.visible.emplace_back(name);
  auto& open = state_.arrangement.views;
  if (std::ranges::find(open, name) == open.end()) open.emplace_back(name);
}

bool Session::is_visible(std::string_view view) const {
  return std::ranges::find(state_.visible, view) != state_.visible.end();
}

void Session::close_view(std::string_view name) {
  auto& open = state_.arrangement.views;
  const auto at = std::ranges::find(open, name);
  if (at == open.end() || open.size() == 1) return;
  const std::string next = at == open.begin() ? open[1] : *(at - 1);
  open.erase(at);
  std::erase(state_.visible, name);
  if (state_.view == name) open_view(next);
  want_shown();
}

void Session::show_views(std::vector<std::string> visible) {
  if (std::ranges::find(visible, state_.view) == visible.end()) visible.push_back(state_.view);
  if (visible == state_.visible) return;
  state_.visible = std::move(visible);
  want_shown();
}

void Session::arrange(Arrangement arrangement) {
  if (arrangement.views.empty()) arrangement.views = state_.arrangement.views;
  state_.arrangement = std::move(arrangement);
  ++state_.arranged;
  const auto& open = state_.arrangement.views;
  open_view(std::ranges::find(open, state_.view) != open.end() ? state_.view : open.front());
  want_shown();
}

void Session::note_arrangement(std::string docking, std::vector<std::string> closed) {
  state_.arrangement.docking = std::move(docking);
  state_.arrangement.closed = std::move(closed);
}

void Session::set_figure_settings(const FigureSettings& settings) {
  if (settings == state_.figure_settings) return;
  state_.figure_settings = settings;
  want_shown();
}

void Session::choose_look(const figures::KeyspaceLook& look) {
  state_.look = look;
  want_shown();
}

void Session::hover(std::optional<std::int64_t> position) { state_.hovered = position; }

void Session::lock(std::optional<std::int64_t> position) {
  state_.locked = position;
  want_story();
  note_snapshot();
}

void Session::select_tokens(TokenSet tokens, bool settled) {
  if (!state_.loaded()) return;
  const bool same = state_.tokens ? *state_.tokens == tokens : tokens.empty();
  if (!same) state_.tokens = tokens.empty() ? nullptr : std::make_shared<const TokenSet>(std::move(tokens));
  if (settled) note_snapshot();
}

void Session::select_neighbours() {
  constexpr std::size_t kMost = 20;
  const auto& points = state_.selected().points;
  if (!points || !state_.locked || state_.selection.block < 0 || state_.selection.block >= points->n_blocks())
    return;
  const std::int64_t n_seen = points->seen[state_.selection.block];
  if (*state_.locked >= n_seen) return;
  const Eigen::VectorXd cosines = analysis::cosines_to(
      points->keys.topRows(n_seen), points->keys.row(*state_.locked).transpose().cast<double>());
  TokenSet tokens(n_seen);
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto last = tokens.begin() + static_cast<std::ptrdiff_t>(std::min(kMost + 1, tokens.size()));
  std::ranges::partial_sort(tokens, last, std::greater<>(),
                            [&](std::int32_t token) { return cosines[token]; });
  tokens.erase(last, tokens.end());
  std::ranges::sort(tokens);
  select_tokens(std::move(tokens));
}

void Session::release() {
  state_.tokens.reset();
  lock(std::nullopt);
  state_.playing = false;
  state_.notice = {};
  if (state_.loaded()) state_.open_error.clear();
}

ShownView Session::shown_view(const ExportChoice& choice) const {
  ShownView shown{state_.view, state_.selection, {}, state_.figure_settings, state_.map_choice(),
                  state_.look, state_.tokens,    {}};
  for (const RunTile& tile : state_.tiles_of(state_.view))
    if (tile.selected || choice.all_runs)
      shown.runs.push_back({tile.recording, tile.info, tile.id, tile.block});
  if (const auto panels = state_.shown_panels.find(state_.view);
      choice.as_seen && panels != state_.shown_panels.end())
    shown.panels = panels->second;
  return shown;
}

void Session::export_view(const std::filesystem::path& path, const ExportChoice& choice) {
  if (!state_.loaded()) return;
  state_.notice = {};
  const bool tokens = path.extension() == ".csv" || path.extension() == ".json";
  const auto job = state_.jobs.emplace_back(std::make_shared<JobWatch>(
      fmt::format("exporting {} to {}", tokens ? "tokens" : state_.view, path.string()),
      figures::is_animation_path(path) ? "blocks" : "heads"));
  const ExportRequest request{shown_view(choice),
                              state_.selected().reading ? nullptr : state_.selected().points, choice, path};
  // Of a kind of its own: of two exports that wait, both are meant.
  reader_.post(fmt::format("export {}", fmt::ptr(job.get())), [inbox = inbox_, request, job] {
    guarded(
        [&] {
          session::export_view(request, *job);
          inbox->put(Exported{job, {fmt::format("written: {}", request.path.string()), false}});
        },
        [&](std::string what) {
          if (job->cancelled()) what = fmt::format("cancelled; {} was not written", request.path.string());
          inbox->put(Exported{job, {std::move(what), !job->cancelled()}});
        });
  });
}

int Session::want_preview(const ExportChoice& choice, int width, int height) {
  const int asked = ++previews_asked_;
  if (!state_.loaded() || !has_picture(state_.view)) return asked;
  figure_maker_.post(
      "preview", [inbox = inbox_, shown = shown_view(choice), page = choice.page, width, height, asked] {
        guarded(
            [&] {
              JobWatch job("", "");
              inbox->put(PreviewMade{
                  {asked, figures::draw_page_to_image(shown_figure(shown, job), width, height, page), {}}});
            },
            [&](std::string what) {
              inbox->put(PreviewMade{{asked, {}, std::move(what)}});
            });
      });
  return asked;
}

void Session::take(PreviewMade&& result) {
  state_.preview = std::make_shared<const Preview>(std::move(result.preview));
}

void Session::note_shown(std::string_view view, std::vector<ShownPanel> panels) {
  state_.shown_panels.insert_or_assign(std::string(view), std::move(panels));
}

void Session::cancel_jobs() {
  if (opening_job_) {
    state_.notice = {fmt::format("cancelled; {} was not opened", state_.opening), false};
    stop_opening();
  }
  for (const auto& job : state_.jobs) job->cancel();
}

}  // namespace keyscope::session
