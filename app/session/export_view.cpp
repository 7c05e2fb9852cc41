#include "app/session/export_view.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "app/drawing/animation.hpp"
#include "app/drawing/cairo_painter.hpp"
#include "app/drawing/view_page.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/nexus.hpp"
#include "app/measures/policy_difference.hpp"
#include "app/session/made_figures.hpp"
#include "app/session/tokens.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace keyscope::session {

namespace {

const ShownRun& selected_run(const ShownView& shown) {
  return *std::ranges::find(shown.runs, RunId{0, shown.selection.run}, &ShownRun::id);
}

void write_tokens(const ExportRequest& request, bool json) {
  const Selection& about = request.shown.selection;
  const recording::RecordingInfo& info = *selected_run(request.shown).info;
  // Points of the head before stay where reading the selected one failed.
  const HeadKey head{about.run, about.layer, about.kv_head};
  if (!request.points || request.points->head != head || about.block < 0 ||
      about.block >= request.points->n_blocks())
    throw FileError(fmt::format("{}: the head was not read yet; try again", request.path.string()));
  const auto tokens = token_table(info, *request.points, about.block, request.shown.tokens.get());
  write_file(request.path,
             json ? tokens_as_json(info, about.run, tokens, selection_options(info, about))
                  : tokens_as_csv(info, about.run, tokens),
             request.choice.page.replace);
}

// The table that `diff --csv` writes of the head.
void write_difference(const ExportRequest& request, JobWatch& job) {
  const Selection& about = request.shown.selection;
  const ShownRun& selected = selected_run(request.shown);
  const int other = figures::other_run(*selected.info, about.run, request.shown.map.reference);
  const std::atomic<bool> cancelled = false;
  const auto difference = measures::policy_difference(*selected.recording, about.run, other,
                                                      {{about.run, about.layer, about.kv_head}}, about.block,
                                                      true, nullptr, cancelled);
  job.check();
  write_file(request.path, measures::difference_csv(*selected.info, difference, about.run, other),
             request.choice.page.replace);
}

// All of it: what is left out of a picture is still there.
void write_numbers(const ExportRequest& request, JobWatch& job) {
  ShownView whole = request.shown;
  whole.panels.clear();
  whole.tokens.reset();
  const figures::Figure figure = shown_figure(whole, job);
  job.check();
  const recording::RecordingInfo& info = *selected_run(request.shown).info;
  figures::write_nexus(request.path, {figure}, {info.provenance, info.model, info.prompt},
                       request.choice.page.replace);
}

// A frame a block, up to the one that is shown.
void write_animation(const ExportRequest& request, JobWatch& job) {
  const ShownView& shown = request.shown;
  const std::int64_t n_frames = shown.selection.block + 1;
  const auto frame = [&](std::int64_t block) {
    ShownView moment = shown;
    moment.selection.block = block;
    const recording::RunInfo& selected = selected_run(shown).info->runs[shown.selection.run];
    for (ShownRun& run : moment.runs)
      run.block = std::min(run.block, matching_block(selected, block, run.info->runs[run.id.run]));
    JobWatch quiet("a frame");
    return shown_figure(moment, quiet);
  };
  figures::draw_animation({n_frames, frame}, request.path, request.choice.page,
                          [&](std::int64_t done, std::int64_t total) {
                            job.check();
                            job.note(done, total);
                          });
}

// The key space and the text of the runs as one page for a browser.
void write_page(const ExportRequest& request, JobWatch& job) {
  const ShownView& shown = request.shown;
  const Selection& about = shown.selection;
  figures::ViewPage page{.layer = about.layer, .kv_head = about.kv_head, .block = about.block};
  for (const ShownRun& run : shown.runs) {
    if (run.id == RunId{0, about.run}) page.main_run = page.runs.size();
    page.runs.push_back({run.recording.get(), run.id.run, shown_name(run)});
  }
  if (shown.tokens) page.tokens = *shown.tokens;
  const std::string html = figures::view_page(page);
  job.check();
  write_file(request.path, html, request.choice.page.replace);
}

bool is_token_table(const std::filesystem::path& path) {
  return path.extension() == ".csv" || path.extension() == ".json";
}

void require_place(const std::filesystem::path& path, bool replace) {
  if (path.empty()) throw UsageError("expected the name of a file");
  if (std::error_code error; !replace && std::filesystem::exists(path, error))
    throw FileError(fmt::format("{}: exists already; choose another name, or tick Replace", path.string()));
  output_path(path, replace);
}

// That the file's extension goes with the view.
void require_kind(const std::string& view, const std::filesystem::path& path) {
  if (is_token_table(path)) return;
  if (figures::is_page_path(path)) {
    if (view == kKeyspaceView || view == kTextView) return;
    throw UsageError("a page (.html) shows the key space beside the text; choose one of these two views");
  }
  if (!has_picture(view)) throw UsageError("this view has no picture; a .csv or .json file holds its tokens");
  if (figures::is_nexus_path(path)) return;
  if (!figures::is_animation_path(path)) return static_cast<void>(figures::format_of(path));
  const std::string name = is_figure_view(view) ? view : std::string(figures::figure_name("keyspace"));
  if (!figures::understands(name, figures::FigureOption::kBlock))
    throw UsageError(fmt::format("{} does not change from block to block: export it as a picture", name));
}

template <typename Check>
std::string refusal_of(const Check& check) {
  std::string why;
  guarded(check, [&](std::string what) { why = std::move(what); });
  return why;
}

}  // namespace

std::string path_refusal(const std::filesystem::path& path, bool replace) {
  return refusal_of([&] { require_place(path, replace); });
}

std::string export_refusal(const std::string& view, const std::filesystem::path& path, bool replace) {
  return refusal_of([&] {
    require_place(path, replace);
    require_kind(view, path);
  });
}

void export_view(const ExportRequest& request, JobWatch& job) {
  const std::string& view = request.shown.view;
  require_place(request.path, request.choice.page.replace);
  require_kind(view, request.path);
  if (request.path.extension() == ".csv" && view == kDifferenceView) return write_difference(request, job);
  if (is_token_table(request.path)) return write_tokens(request, request.path.extension() == ".json");
  if (figures::is_page_path(request.path)) return write_page(request, job);
  if (figures::is_nexus_path(request.path)) return write_numbers(request, job);
  if (figures::is_animation_path(request.path)) return write_animation(request, job);
  const figures::Figure figure = shown_figure(request.shown, job);
  job.check();
  figures::draw_to_file(figure, request.path, request.choice.page);
}

namespace {

std::string file_word(const std::string& path) { return quote_word(full_path(path).string()); }

std::string shown_look(const SessionState& state) {
  return look_options(possible_look(*state.info, state.selection.run, state.look).look);
}

// What of the view is chosen besides head and block, where it is not as `view` begins.
std::string view_options(const SessionState& state) {
  std::string options;
  const auto& info = *state.info;
  if (state.measure != 0) options += fmt::format(" --measure {}", measure_choices()[state.measure].id);
  if (const int reference = state.map_choice().reference; reference >= 0)
    options += fmt::format(" --reference {}", quote_word(info.runs[reference].plan.name));
  if (state.locked) options += fmt::format(" --token {}", *state.locked);
  options += shown_look(state);
  for (const RunId& id : state.beside) options += " --beside " + quote_word(info.runs[id.run].plan.name);
  if (!is_figure_view(state.view)) return options;
  FigureSettings settings = settings_of(state.view, state.figure_settings);
  if (settings.token && state.locked) options += " --in-heads";
  settings.token.reset();
  options += settings_options(settings);
  return options;
}

}  // namespace

std::string_view view_command_refusal(const SessionState& state) {
  if (state.figure_file) return {};
  if (!state.loaded()) return "nothing is open";
  if (state.path.empty()) return "this run is kept in memory only, no file can be named";
  const auto is_asked = [&](int run) {
    return state.what_if && run >= 0 && state.info->runs[run].plan.name == measures::kWhatIfName;
  };
  if (is_asked(state.selection.run) || is_asked(state.map_choice().reference) ||
      std::ranges::any_of(state.beside, [&](const RunId& id) { return id.source == 0 && is_asked(id.run); }))
    return "the run what-if is in no file; `keyscope replay` writes it";
  if (std::ranges::any_of(state.beside, [](const RunId& id) { return id.source > 0; }))
    return "a run beside it is kept in memory only, no file can be named";
  return {};
}

std::string view_command(const SessionState& state) {
  if (state.figure_file) return fmt::format("keyscope view {}", file_word(state.figure_path));
  const std::string file = file_word(state.path);
  if (!is_figure_view(state.view) || state.comparing(state.view))
    return fmt::format("keyscope view {} --fresh {} --view {}{}", file,
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
                     selection_options(info, state.selection), runs, shown_look(state));
}

}  // namespace keyscope::session
