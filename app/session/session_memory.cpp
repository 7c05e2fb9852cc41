// What outlives a document: how it was looked at, and live runs that are in no file.

#include <utility>

#include <fmt/format.h>

#include "app/session/session.hpp"

namespace keyscope::session {

std::optional<RememberedView> Session::view_to_remember() const {
  if (memory_.empty() || state_.path.empty() || !state_.loaded()) return std::nullopt;
  const Selection& now = state_.selection;
  RememberedView view;
  view.selection.run = state_.run().plan.name;
  view.selection.layer = now.layer;
  view.selection.kv_head = now.kv_head;
  for (const RunId& id : state_.beside)
    if (id.source == 0)
      view.selection.beside.push_back(state_.info->runs[static_cast<std::size_t>(id.run)].plan.name);
  view.view = state_.view;
  view.measure = measure_choices()[state_.measure].id;
  view.look = state_.look;
  view.settings = state_.figure_settings;
  if (now.block >= 0) view.selection.block = now.block;
  return view;
}

void Session::remember() const {
  if (const auto view = view_to_remember()) remember_view(memory_, state_.path, *view);
}

// What is in no file would be gone with the document.
void Session::keep_live_run() {
  if (!state_.loaded() || !state_.path.empty()) return;
  std::string name = state_.info->model.name + ":";
  for (const recording::RunInfo& run : state_.info->runs)
    name += fmt::format("{} {}", &run == &state_.info->runs.front() ? "" : ",", run.plan.name);
  if (const std::int64_t budget = state_.run().plan.budget; budget > 0)
    name += fmt::format(", N = {}", budget);
  state_.earlier.push_back({state_.recording, std::move(name)});
}

void Session::show_earlier(std::size_t earlier) {
  if (earlier >= state_.earlier.size()) return;
  auto recording = state_.earlier[earlier].recording;
  state_.earlier.erase(state_.earlier.begin() + static_cast<std::ptrdiff_t>(earlier));
  take(Opened{"", std::move(recording), {}});
}

// What was asked for; else what is remembered; else the default.
void Session::select_first(const Opened& result) {
  select_as_asked(result.selection);
  if (!result.remembered) return;
  if (result.selection == SelectionRequest()) {
    state_.selection = remembered_selection(*state_.info, *result.remembered);
    state_.beside = remembered_beside(*state_.info, state_.selection.run, *result.remembered);
  }
  if (!result.keep.view && is_view(result.remembered->view)) state_.view = result.remembered->view;
  if (!result.keep.look) state_.look = result.remembered->look;
  if (!result.keep.settings) state_.figure_settings = result.remembered->settings;
  if (!result.selection.measure) state_.measure = measure_index(result.remembered->measure);
}

}  // namespace keyscope::session
