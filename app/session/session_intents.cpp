// What panels and keys ask of the session.

#include <algorithm>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "analysis/errors.hpp"
#include "app/figures/canvas_cairo.hpp"
#include "app/figures/keyspace.hpp"
#include "app/session/session.hpp"

namespace keyscope::session {
namespace {

void write_keyspace(const recording::Recording& recording, const recording::RecordingInfo& info,
                    const Selection& selection, const std::filesystem::path& path, bool replace) {
  if (std::error_code error; !replace && std::filesystem::exists(path, error))
    throw FileError(fmt::format("{}: exists already; choose another name, or tick Replace", path.string()));
  figures::KeyspaceSelection wanted;
  wanted.runs = {selection.run};
  wanted.layer = selection.layer;
  wanted.kv_head = selection.kv_head;
  wanted.block = selection.block;
  const figures::Figure figure = figures::keyspace_figure(recording, wanted);
  figures::PageOptions page;
  page.replace = replace;
  if (figures::is_nexus_path(path))
    figures::write_nexus(path, {figure}, {info.provenance, info.model, info.prompt}, replace);
  else
    figures::draw_to_file(figure, path, page);
}

}  // namespace

void Session::select(Selection selection) {
  if (!state_.loaded()) return;
  selection = clamp_selection(*state_.info, selection);
  if (selection == state_.selection) return;
  const bool other_run = selection.run != state_.selection.run;
  state_.selection = selection;
  want_points();
  want_figure();
  if (other_run) want_measures();
}

void Session::select_figure(std::int64_t figure) {
  if (!state_.figure_file) return;
  const std::int64_t last = std::ssize(state_.figure_file->figures) - 1;
  state_.figure = static_cast<std::size_t>(std::clamp<std::int64_t>(figure, 0, last));
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

void Session::move_layer(int by) {
  if (!state_.loaded()) return;
  const auto& layers = state_.info->layers;
  const auto at = std::ranges::find(layers, state_.selection.layer) - layers.begin();
  const auto to = std::clamp<std::ptrdiff_t>(at + by, 0, std::ssize(layers) - 1);
  select_head(layers[static_cast<std::size_t>(to)], state_.selection.kv_head);
}

void Session::move_kv_head(int by) {
  if (!state_.loaded()) return;
  const std::vector<int> heads = state_.info->heads.list(state_.info->model.n_kv_heads);
  const auto at = std::ranges::find(heads, state_.selection.kv_head) - heads.begin();
  const auto to = std::clamp<std::ptrdiff_t>(at + by, 0, std::ssize(heads) - 1);
  select_head(state_.selection.layer, heads[static_cast<std::size_t>(to)]);
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

void Session::choose_measure(std::size_t measure) {
  state_.measure = std::min(measure, measure_choices().size() - 1);
}

void Session::choose_view(std::string_view name) {
  if (!is_view(name) || state_.view == name) return;
  state_.view = name;
  want_figure();
}

void Session::hover(std::optional<std::int64_t> position) { state_.hovered = position; }

void Session::lock(std::optional<std::int64_t> position) { state_.locked = position; }

void Session::release() {
  state_.locked.reset();
  state_.playing = false;
  state_.notice = {};
  if (state_.loaded()) state_.open_error.clear();
}

void Session::start_live(LiveCapture capture, const SelectionRequest& request) {
  if (live_ && live_->status().going_on()) {
    state_.notice = {"A run is going on; cancel it first.", true};
    return;
  }
  close_document();
  live_request_ = request;
  live_ = std::make_unique<LiveRunner>(std::move(capture), wake_);
  state_.recording = live_->recording();
  // Nothing yet: the first look at it is refresh_live's, which selects as well. A capture may have ended
  // before this line, and would not grow any more.
  state_.info = std::make_shared<const recording::RecordingInfo>();
  state_.following = true;
}

void Session::pause_live() {
  if (live_) live_->pause();
}

void Session::resume_live() {
  if (live_) live_->resume();
}

void Session::step_live() {
  if (live_) live_->step();
}

void Session::cancel_live() {
  if (live_) live_->cancel();
}

std::optional<LiveStatus> Session::live_status() const {
  if (!live_ || state_.recording != live_->recording()) return std::nullopt;
  return live_->status();
}

void Session::export_keyspace(const std::filesystem::path& path, bool replace) {
  if (!state_.loaded()) return;
  state_.notice = {fmt::format("writing {} …", path.string()), false};
  reader_.post("export", [inbox = inbox_, recording = state_.recording, info = state_.info,
                          selection = state_.selection, path, replace] {
    try {
      write_keyspace(*recording, *info, selection, path, replace);
      inbox->put(Notice{fmt::format("written: {}", path.string()), false});
    } catch (const std::exception& error) {
      inbox->put(Notice{error.what(), true});
    }
  });
}

}  // namespace keyscope::session
