#include "app/panels/palette_entries.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "app/session/typed_selection.hpp"

namespace keyscope::window {
namespace {

using session::Session;

void add_actions(const Session& session, std::vector<PaletteEntry>& entries) {
  for (const Action& action : actions()) {
    if (action.id == "palette" || action.id == "run" || action.id == "beside")
      continue;  // this one; and runs are offered by name
    entries.push_back({std::string(action.name), shortcut_text(action.shortcut),
                       std::string(action.refusal(session)),
                       [&action](ActionTarget& target) { perform(action, target); }});
  }
}

void add_views(const Session& session, std::vector<PaletteEntry>& entries) {
  const auto& state = session.state();
  for (const auto& view : session::view_choices()) {
    const bool recorded = view.name == session::kTextView || figures::is_recorded(*state.info, view.name);
    std::string refusal = state.view == view.name ? "shown now" : "";
    if (!recorded) refusal = "was not recorded";
    entries.push_back({"View: " + view.label, "", std::move(refusal),
                       [name = view.name](ActionTarget& target) { target.session().choose_view(name); }});
  }
}

void add_measures(const Session& session, std::vector<PaletteEntry>& entries) {
  const auto measures = session::measure_choices();
  for (std::size_t i = 0; i < measures.size(); ++i)
    entries.push_back({fmt::format("Measure: {}", measures[i].label), "",
                       i == session.state().measure ? "shown now" : "",
                       [i](ActionTarget& target) { target.session().choose_measure(i); }});
}

void add_runs(const Session& session, std::vector<PaletteEntry>& entries) {
  const auto& state = session.state();
  const Shortcut& keys = action("run").shortcut;
  for (int run = 0; run < static_cast<int>(state.info->runs.size()); ++run) {
    const std::string key = run < keys.n_keys ? shortcut_text({keys.key + run, keys.modifiers}) : "";
    entries.push_back({fmt::format("Policy: {}", state.info->runs[static_cast<std::size_t>(run)].plan.name),
                       key, run == state.selection.run ? "shown now" : "",
                       [run](ActionTarget& target) { target.session().select_run(run); }});
  }
}

void add_beside(const Session& session, std::vector<PaletteEntry>& entries) {
  const auto& state = session.state();
  const Shortcut& keys = action("beside").shortcut;
  for (std::size_t i = 0; i < state.choices.size(); ++i) {
    const session::RunChoice& choice = state.choices[i];
    const int nth = static_cast<int>(i);
    if (choice.id == session::RunId{0, state.selection.run}) continue;
    const bool shown = std::ranges::find(state.beside, choice.id) != state.beside.end();
    entries.push_back({fmt::format("{}: {}{}", shown ? "No longer beside" : "Beside", choice.name,
                                   choice.id.source > 0 ? ", earlier run" : ""),
                       nth < keys.n_keys ? shortcut_text({keys.key + nth, keys.modifiers}) : "",
                       shown ? "" : choice.refusal,
                       [id = choice.id](ActionTarget& target) { target.session().toggle_beside(id); }});
  }
}

void add_figures(const Session& session, std::vector<PaletteEntry>& entries) {
  const auto& file = *session.state().figure_file;
  for (std::size_t i = 0; i < file.figures.size(); ++i)
    entries.push_back({fmt::format("Figure: {}", file.figures[i].title), file.figures[i].name,
                       i == session.state().figure ? "shown now" : "", [i](ActionTarget& target) {
                         target.session().select_figure(static_cast<std::int64_t>(i));
                       }});
}

void add_earlier(const Session& session, std::vector<PaletteEntry>& entries) {
  const auto& earlier = session.state().earlier;
  for (std::size_t i = 0; i < earlier.size(); ++i)
    entries.push_back({"Earlier run: " + earlier[i].name, "in memory", "",
                       [i](ActionTarget& target) { target.session().show_earlier(i); }});
}

void add_recent(const Session& session, const std::vector<session::RecentFile>& recent,
                std::vector<PaletteEntry>& entries) {
  for (const session::RecentFile& file : recent) {
    const std::filesystem::path path(file.path);
    std::string refusal = file.missing ? "is gone: " + path.parent_path().string() : "";
    if (file.path == session.state().path || file.path == session.state().figure_path) refusal = "open now";
    entries.push_back({"Open " + path.filename().string(), path.parent_path().string(), std::move(refusal),
                       [path](ActionTarget& target) { target.session().open(path); }});
  }
}

}  // namespace

std::vector<PaletteEntry> palette_entries(const Session& session,
                                          const std::vector<session::RecentFile>& recent) {
  std::vector<PaletteEntry> entries;
  add_actions(session, entries);
  if (session.state().loaded()) {
    add_views(session, entries);
    add_measures(session, entries);
    add_runs(session, entries);
    add_beside(session, entries);
  } else if (session.state().figure_file) {
    add_figures(session, entries);
  }
  add_earlier(session, entries);
  add_recent(session, recent, entries);
  return entries;
}

std::vector<PaletteEntry> typed_entries(const Session& session, const std::string& typed) {
  const auto request = session::typed_selection(typed);
  if (!request) return {};
  const auto& state = session.state();
  return {{session::describe_request(*request), "",
           state.loaded() ? session::selection_refusal(*state.info, state.selection, *request)
                          : "no recording is open",
           [request](ActionTarget& target) { target.session().select_typed(*request); }}};
}

}  // namespace keyscope::window
