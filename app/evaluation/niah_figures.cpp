#include "app/evaluation/niah_figures.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

#include <fmt/format.h>

namespace keyscope::evaluation {
namespace {

using figures::Figure;
using figures::Panel;

// Numbers are written into cells as long as there is room for them.
constexpr std::size_t kMostNumberedLengths = 10;
constexpr std::size_t kMostColumns = 3;

// (depths, lengths) for every grid point.
std::vector<RowMatrixF> recalls(const TaskReport& report, const NiahTask& task) {
  const auto n = grid_of(report.settings).size();
  std::vector<RowMatrixF> recalls(n, RowMatrixF(static_cast<Eigen::Index>(task.depths.size()),
                                                static_cast<Eigen::Index>(task.lengths.size())));
  for (std::size_t row = 0; row < task.depths.size(); ++row)
    for (std::size_t column = 0; column < task.lengths.size(); ++column) {
      const auto cells = cells_where(report, {{"length", task.lengths[column]}, {"depth", task.depths[row]}});
      for (std::size_t point = 0; point < n; ++point) {
        double sum = 0;
        for (const ExampleResult* result : cells[point].results) sum += result->score("recall");
        recalls[point](static_cast<Eigen::Index>(row), static_cast<Eigen::Index>(column)) =
            static_cast<float>(sum / static_cast<double>(cells[point].results.size()));
      }
    }
  return recalls;
}

Panel panel_of(const std::string& title, std::size_t place, RowMatrixF values, const NiahTask& task,
               bool difference) {
  Panel panel;
  panel.id = fmt::format("point_{}", place);
  panel.title = title;
  panel.x = {"length", "tokens"};
  panel.y = {"depth of the needle", "%"};
  for (const std::int64_t length : task.lengths) panel.x.categories.push_back(fmt::format("{}", length));
  for (const double depth : task.depths) panel.y.categories.push_back(fmt::format("{:g}", depth));
  panel.legend = false;
  figures::Heatmap heatmap;
  heatmap.id = difference ? "recall_difference" : "recall";
  heatmap.long_name = difference ? "recall less the full cache's" : "recall";
  heatmap.colour_map = difference ? figures::ColourMap::kDiverging : figures::ColourMap::kViridis;
  heatmap.low = difference ? -1 : 0;
  heatmap.high = 1;
  heatmap.decimals = task.lengths.size() <= kMostNumberedLengths ? 2 : -1;
  heatmap.x_first = heatmap.y_first = -0.5;  // a cell's middle is its category's number
  heatmap.x_end = static_cast<double>(values.cols()) - 0.5;
  heatmap.y_end = static_cast<double>(values.rows()) - 0.5;
  heatmap.values = std::move(values);
  panel.heatmap = std::move(heatmap);
  return panel;
}

Figure figure_of(const TaskReport& report, const char* name, const char* title) {
  Figure figure;
  figure.name = name;
  figure.title = title;
  figure.caption = report_caption(report);
  return figure;
}

}  // namespace

std::vector<nlohmann::ordered_json> niah_cells(const NiahTask& task) {
  std::vector<nlohmann::ordered_json> cells;
  for (const std::int64_t length : task.lengths)
    for (const double depth : task.depths) cells.push_back({{"length", length}, {"depth", depth}});
  return cells;
}

std::vector<Figure> niah_figures(const TaskReport& report, const NiahTask& task) {
  const auto grid = grid_of(report.settings);
  const auto labels = point_labels(grid);
  auto values = recalls(report, task);
  Figure recall = figure_of(report, "niah-recall", "Recall of a needle, by length and depth");
  Figure difference =
      figure_of(report, "niah-difference", "Recall of a needle less that with the full cache");
  for (std::size_t point = 0, full = 0; point < grid.size(); ++point) {
    if (!grid[point].evicts())
      full = point;
    else
      difference.panels.push_back(panel_of(labels[point], point, values[point] - values[full], task, true));
    recall.panels.push_back(panel_of(labels[point], point, values[point], task, false));
  }
  std::vector<Figure> made;
  for (Figure* figure : {&recall, &difference})
    if (!figure->panels.empty()) {
      figure->columns =
          static_cast<int>(std::min(figure->panels.size(), task.lengths.size() > 5 ? 2 : kMostColumns));
      made.push_back(std::move(*figure));
    }
  return made;
}

}  // namespace keyscope::evaluation
