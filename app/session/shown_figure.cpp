#include "app/session/shown_figure.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/figures/catalogue.hpp"
#include "app/figures/side_by_side.hpp"
#include "app/measures/policy_difference.hpp"
#include "app/session/keyspace_view.hpp"

namespace keyscope::session {

namespace {

using figures::Figure;
using figures::Panel;

Figure figure_of(const ShownView& shown, const ShownRun& run, JobWatch& job) {
  Selection selection = shown.selection;
  selection.run = run.id.run;
  selection.block = run.block;
  const auto key = figure_key(*run.info, selection, shown.view, shown.map, shown.settings);
  figures::FigureRequest wanted = figure_request(*run.info, key);
  if (shown.view == kKeyspaceView) {
    const figures::KeyspaceLook look = possible_look(*run.info, run.id.run, shown.look).look;
    wanted.projection = look.projection;
    wanted.colour = look.colour;
    wanted.queries = look.queries;
    wanted.density = look.density;
    if (look.colour == figures::KeyColour::kKept)
      wanted.reference =
          run.info->runs[figures::other_run(*run.info, run.id.run, shown.map.reference)].plan.name;
  }
  const WatchedRecording watched(*run.recording, heads_of_figure(*run.info, wanted), job);
  return figures::build_figure(watched, wanted);
}

void leave_out(Panel& panel, const std::vector<std::string>& hidden) {
  const auto is_hidden = [&](const auto& series) {
    return std::ranges::find(hidden, series.id) != hidden.end();
  };
  std::erase_if(panel.points, is_hidden);
  std::erase_if(panel.lines, is_hidden);
  std::erase_if(panel.bands, is_hidden);
}

void show_as_seen(Figure& figure, const ShownView& shown) {
  for (std::size_t i = 0; i < figure.panels.size(); ++i) {
    Panel& panel = figure.panels[i];
    if (shown.tokens && !panel.points.empty()) panel = figures::fade_unselected(panel, *shown.tokens);
    if (i >= shown.panels.size()) continue;
    leave_out(panel, shown.panels[i].hidden);
    panel.hexagon = shown.panels[i].hexagon;
    if (panel.is_3d())
      panel.orbit = shown.panels[i].orbit;
    else if (!figure.multiples)
      panel.part = shown.panels[i].part;
  }
}

}  // namespace

std::string shown_name(const ShownRun& run) {
  return run.info->runs[run.id.run].plan.name + (run.id.source > 0 ? " (earlier)" : "");
}

Figure shown_figure(const ShownView& shown, JobWatch& job) {
  std::vector<Figure> figures;
  std::vector<std::string> names;
  for (const ShownRun& run : shown.runs) {
    figures.push_back(figure_of(shown, run, job));
    show_as_seen(figures.back(), shown);
    names.push_back(shown_name(run));
  }
  return figures::side_by_side(std::move(figures), names);
}

}  // namespace keyscope::session
