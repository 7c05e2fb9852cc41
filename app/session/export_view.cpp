#include "app/session/export_view.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "app/drawing/cairo_painter.hpp"
#include "app/figures/nexus.hpp"
#include "app/measures/policy_difference.hpp"
#include "app/session/made_figures.hpp"
#include "app/session/tokens.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace keyscope::session {

namespace {

void write_tokens(const recording::RecordingInfo& info, const ExportRequest& request, bool json) {
  const Selection& about = request.selection;
  // Points of the head before stay where reading the selected one failed.
  const HeadKey head{about.run, about.layer, about.kv_head};
  if (!request.points || request.points->head != head || about.block < 0 ||
      about.block >= request.points->n_blocks())
    throw FileError(fmt::format("{}: the head was not read yet; try again", request.path.string()));
  const auto tokens = token_table(info, *request.points, about.block, request.tokens.get());
  write_file(request.path,
             json ? tokens_as_json(info, about.run, tokens, selection_options(info, about))
                  : tokens_as_csv(info, about.run, tokens),
             request.replace);
}

// The table that `diff --csv` writes of the head.
void write_difference(const recording::Recording& recording, const recording::RecordingInfo& info,
                      const ExportRequest& request, JobWatch& job) {
  const Selection& about = request.selection;
  const int other = figures::other_run(info, about.run, request.map.reference);
  const std::atomic<bool> cancelled = false;
  const auto difference =
      measures::policy_difference(recording, about.run, other, {{about.run, about.layer, about.kv_head}},
                                  about.block, true, nullptr, cancelled);
  job.check();
  write_file(request.path, measures::difference_csv(info, difference, about.run, other), request.replace);
}

}  // namespace

void export_view(const recording::Recording& recording, const recording::RecordingInfo& info,
                 const ExportRequest& request, JobWatch& job) {
  if (std::error_code error; !request.replace && std::filesystem::exists(request.path, error))
    throw FileError(
        fmt::format("{}: exists already; choose another name, or tick Replace", request.path.string()));
  const std::string extension = request.path.extension().string();
  if (extension == ".csv" && request.view == kDifferenceView)
    return write_difference(recording, info, request, job);
  if (extension == ".csv" || extension == ".json") return write_tokens(info, request, extension == ".json");
  if (request.view == kTextView || request.view == kDifferenceView)
    throw UsageError("this view has no picture; a .csv or .json file holds its tokens");
  const auto key = figure_key(info, request.selection, request.view, request.map, request.settings);
  figures::FigureRequest wanted = figure_request(info, key);
  if (request.view == kKeyspaceView) {
    wanted.projection = request.look.projection;
    wanted.colour = request.look.colour;
    wanted.queries = request.look.queries;
    if (request.look.colour == figures::KeyColour::kKept)
      wanted.reference =
          info.runs[figures::other_run(info, request.selection.run, request.map.reference)].plan.name;
    if (!request.runs.empty()) wanted.runs.clear();
    for (const int run : request.runs) wanted.runs.push_back(info.runs[run].plan.name);
  }
  const WatchedRecording watched(recording, heads_of_figure(info, wanted), job);
  const figures::Figure figure = figures::build_figure(watched, wanted);
  job.check();
  figures::PageOptions page;
  page.replace = request.replace;
  if (figures::is_nexus_path(request.path))
    figures::write_nexus(request.path, {figure}, {info.provenance, info.model, info.prompt}, request.replace);
  else
    figures::draw_to_file(figure, request.path, page);
}

namespace {

std::string file_word(const std::string& path) { return quote_word(full_path(path).string()); }

// What of the view is chosen besides head and block, where it is not as `view` begins.
std::string view_options(const SessionState& state) {
  std::string options;
  const auto& info = *state.info;
  if (state.measure != 0) options += fmt::format(" --measure {}", measure_choices()[state.measure].id);
  if (const int reference = state.map_choice().reference; reference >= 0)
    options += fmt::format(" --reference {}", quote_word(info.runs[reference].plan.name));
  if (state.locked) options += fmt::format(" --token {}", *state.locked);
  const figures::KeyspaceLook usual;
  if (state.look.projection != usual.projection)
    options += fmt::format(" --projection {}", figures::id_of(state.look.projection));
  if (state.look.colour != usual.colour)
    options += fmt::format(" --colour {}", figures::id_of(state.look.colour));
  if (state.look.queries) options += " --queries";
  for (const RunId& id : state.beside) options += " --beside " + quote_word(info.runs[id.run].plan.name);
  if (is_figure_view(state.view)) options += settings_options(settings_of(state.view, state.figure_settings));
  return options;
}

}  // namespace

std::string_view view_command_refusal(const SessionState& state) {
  if (state.figure_file) return {};
  if (!state.loaded()) return "nothing is open";
  if (state.path.empty()) return "this run is kept in memory only, no file can be named";
  if (state.what_if && state.run().plan.name == kWhatIfName)
    return "this run is in no file; `keyscope replay` writes it";
  if (std::ranges::any_of(state.beside, [](const RunId& id) { return id.source > 0; }))
    return "a run beside it is kept in memory only, no file can be named";
  return {};
}

std::string view_command(const SessionState& state) {
  if (state.figure_file) return fmt::format("keyscope view {}", file_word(state.figure_path));
  const std::string file = file_word(state.path);
  if (!is_figure_view(state.view) || state.comparing(state.view))
    return fmt::format("keyscope view {} {} --view {}{}", file,
                       selection_options(*state.info, state.selection), quote_word(state.view),
                       view_options(state));
  const FigureKey key =
      figure_key(*state.info, state.selection, state.view, state.map_choice(), state.figure_settings);
  return fmt::format("keyscope figure {} {}{} --out {}.svg", file, key.name, figure_options(*state.info, key),
                     key.name);
}

std::string keyspace_command(const SessionState& state) {
  const auto& info = *state.info;
  std::string runs;
  for (const RunTile& tile : state.tiles)
    if (!tile.selected) runs += " --run " + quote_word(info.runs[tile.id.run].plan.name);
  return fmt::format("keyscope figure {} keyspace {}{}{} --out keyspace.svg", file_word(state.path),
                     selection_options(info, state.selection), runs, look_options(state.look));
}

}  // namespace keyscope::session
