#include "app/session/shown_figure.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/figures/catalogue.hpp"
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
    wanted.projection = shown.look.projection;
    wanted.colour = shown.look.colour;
    wanted.queries = shown.look.queries;
    wanted.density = shown.look.density;
    if (shown.look.colour == figures::KeyColour::kKept)
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
    if (shown.tokens && !panel.points.empty()) panel = fade_unselected(panel, *shown.tokens);
    if (i >= shown.panels.size()) continue;
    leave_out(panel, shown.panels[i].hidden);
    if (!figure.multiples && !panel.is_3d()) panel.part = shown.panels[i].part;
  }
}

// How many bytes all begin with, or end with, so that no word is cut in two.
std::size_t common_start(const std::vector<std::string>& texts, std::string_view break_at) {
  std::size_t n = texts.front().size();
  for (const std::string& text : texts)
    n = std::min<std::size_t>(n, std::ranges::mismatch(texts.front(), text).in1 - texts.front().begin());
  if (n == texts.front().size() &&
      std::ranges::all_of(texts, [&](const auto& text) { return text.size() == n; }))
    return n;
  const std::size_t at = std::string_view(texts.front()).substr(0, n).rfind(break_at);
  return at == std::string_view::npos ? 0 : at + break_at.size();
}

std::size_t common_end(const std::vector<std::string>& texts, std::size_t start) {
  std::size_t n = texts.front().size() - start;
  for (const std::string& text : texts) {
    std::size_t same = 0;
    while (same < std::min(n, text.size() - start) &&
           text[text.size() - 1 - same] == texts.front()[texts.front().size() - 1 - same])
      ++same;
    n = same;
  }
  const std::string_view tail = std::string_view(texts.front()).substr(texts.front().size() - n);
  const std::size_t at = std::min(tail.find(", "), tail.find(". "));
  return at == std::string_view::npos ? 0 : n - at;
}

// "…, keydiff, N = 253 and none, B = 64. …"
std::string joined_captions(const std::vector<std::string>& captions) {
  const std::size_t start = common_start(captions, ", ");
  const std::string& first = captions.front();
  if (start == first.size()) return first;
  const std::size_t end = common_end(captions, start);
  std::vector<std::string> middles;
  middles.reserve(captions.size());
  for (const std::string& caption : captions)
    middles.push_back(caption.substr(start, caption.size() - end - start));
  return fmt::format("{}{}{}", first.substr(0, start), fmt::join(middles, " | "),
                     first.substr(first.size() - end));
}

std::string without_end(std::string_view text, std::string_view end) {
  while (!text.empty() && end.find(text.back()) != std::string_view::npos) text.remove_suffix(1);
  return std::string(text);
}

// One scale where the numbers mean the same.
void share_map_scales(std::vector<Panel>& panels) {
  std::vector<MeantScale> scales;
  for (const Panel& panel : panels) {
    if (!panel.heatmap) return;
    scales.push_back({*panel.heatmap, panel.heatmap->long_name});
  }
  const auto shared = shared_scale(scales);
  if (!shared) return;
  for (Panel& panel : panels) {
    panel.heatmap->low = shared->low;
    panel.heatmap->high = shared->high;
  }
}

}  // namespace

Figure side_by_side(std::vector<Figure> figures, const std::vector<std::string>& names) {
  if (figures.size() == 1) return std::move(figures.front());
  std::vector<std::string> titles, captions;
  for (const Figure& figure : figures) {
    titles.push_back(figure.title);
    captions.push_back(figure.caption);
  }
  const std::size_t start = common_start(titles, ": ");
  Figure joined = figures.front();
  joined.title = without_end(titles.front().substr(0, start), ": ");
  joined.caption = joined_captions(captions);
  joined.panels.clear();
  joined.multiples.reset();
  joined.view.runs = names;
  std::set<std::string> ids;
  for (std::size_t i = 0; i < figures.size(); ++i)
    for (Panel& panel : figures[i].panels) {
      if (panel.title != names[i])
        panel.title = panel.title.empty() ? names[i] : fmt::format("{}: {}", names[i], panel.title);
      const std::string own = titles[i].substr(start);
      if (!own.empty()) panel.note = panel.note.empty() ? own : fmt::format("{}; {}", own, panel.note);
      for (int n = 2; !ids.insert(panel.id).second; ++n)
        panel.id = fmt::format("{}_{}", figures[i].panels.front().id, n);
      joined.panels.push_back(std::move(panel));
    }
  const std::size_t n_each = joined.panels.size() / figures.size();
  joined.columns =
      n_each == 1 ? static_cast<int>(std::min<std::size_t>(2, figures.size())) : figures.front().columns;
  joined.shared_ranges = n_each == 1;
  figures::share_point_scales(joined.panels);
  share_map_scales(joined.panels);
  return joined;
}

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
  return side_by_side(std::move(figures), names);
}

}  // namespace keyscope::session
