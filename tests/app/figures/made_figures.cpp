#include "tests/app/figures/made_figures.hpp"

#include <string>
#include <utility>

#include "app/figures/catalogue.hpp"
#include "base/errors.hpp"

namespace keyscope::figures {

FakeRecording make_recording() {
  FakeRecording recording(2, 2, 1, 8, 90, 16);
  recording.add_run("none", 0);
  recording.add_run("keydiff", 24);
  recording.add_run("sink", 24);
  recording.fill(7);
  return recording;
}

recording::Origin origin_of(const FakeRecording& recording) {
  const auto info = recording.info();
  return {info->provenance, info->model, info->prompt};
}

std::vector<Figure> make_figures(const FakeRecording& recording) {
  std::vector<Figure> figures;
  const auto add = [&](const std::string& name, std::vector<std::string> runs, int components) {
    FigureRequest request;
    request.name = name;
    request.runs = std::move(runs);
    request.layer = 1;
    request.components = components;
    request.queries = components == 3;
    figures.push_back(build_figure(recording, request));
  };
  add("attention", {"sink"}, 2);
  add("cosine-matrix", {"none"}, 2);
  add("keyspace", {"keydiff"}, 2);
  add("keyspace", {"none", "keydiff", "sink"}, 3);
  for (const KeyColour colour : {KeyColour::kPosition, KeyColour::kTokenClass}) {
    FigureRequest request;
    request.name = "keyspace";
    request.projection = Projection::kAnchor;
    request.colour = colour;
    figures.push_back(build_figure(recording, request));
  }
  FigureRequest ordered;
  ordered.name = "cosine-matrix";
  ordered.runs = {"keydiff"};
  ordered.order = MatrixOrder::kDendrogram;
  figures.push_back(build_figure(recording, ordered));
  ordered.order = MatrixOrder::kPosition;
  ordered.retained_only = true;
  figures.push_back(build_figure(recording, ordered));
  add("diversity", {"keydiff", "sink"}, 2);
  add("overlap", {"none", "keydiff", "sink"}, 2);
  FigureRequest cells;
  cells.name = "score-attention";
  cells.grid.emplace();
  figures.push_back(build_figure(recording, cells));
  return figures;
}

const PointSeries& series(const Panel& panel, const std::string& id) {
  for (const PointSeries& each : panel.points)
    if (each.id == id) return each;
  throw InvalidInput("no series " + id);
}

}  // namespace keyscope::figures
