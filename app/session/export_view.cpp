#include "app/session/export_view.hpp"

#include <system_error>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/drawing/cairo_painter.hpp"
#include "app/figures/nexus.hpp"
#include "app/figures/output_file.hpp"
#include "app/session/figure_choice.hpp"
#include "app/session/token_table.hpp"
#include "app/session/watched_recording.hpp"

namespace keyscope::session {
namespace {

void write_tokens(const recording::RecordingInfo& info, const ExportRequest& request, bool json) {
  const Selection& about = request.selection;
  if (!request.points || about.block < 0 || about.block >= request.points->n_blocks())
    throw FileError(fmt::format("{}: the head was not read yet; try again", request.path.string()));
  const auto tokens = token_table(info, *request.points, about.block, request.tokens.get());
  figures::write_file(request.path,
                      json ? tokens_as_json(info, about.run, tokens, selection_options(info, about))
                           : tokens_as_csv(info, about.run, tokens),
                      request.replace);
}

}  // namespace

void export_view(const recording::Recording& recording, const recording::RecordingInfo& info,
                 const ExportRequest& request, JobWatch& job) {
  if (std::error_code error; !request.replace && std::filesystem::exists(request.path, error))
    throw FileError(
        fmt::format("{}: exists already; choose another name, or tick Replace", request.path.string()));
  const std::string extension = request.path.extension().string();
  if (extension == ".csv" || extension == ".json") return write_tokens(info, request, extension == ".json");
  if (request.view == kTextView)
    throw UsageError("the text has no picture; a .csv or .json file holds its tokens");
  const auto key = figure_key(info, request.selection, request.view, request.map, request.settings);
  figures::FigureRequest wanted = figure_request(info, key);
  if (request.view == kKeyspaceView) {
    wanted.projection = request.look.projection;
    wanted.colour = request.look.colour;
    wanted.queries = request.look.queries;
    if (!request.runs.empty()) wanted.runs.clear();
    for (const int run : request.runs)
      wanted.runs.push_back(info.runs[static_cast<std::size_t>(run)].plan.name);
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

}  // namespace keyscope::session
