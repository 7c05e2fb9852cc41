#include "app/evaluation/phonebook_figure.hpp"

#include <cstddef>
#include <utility>

#include "app/figures/policy_look.hpp"
#include "app/figures/spread.hpp"

namespace keyscope::evaluation {
namespace {

constexpr float kMarkSize = 6;
constexpr double kStep = 0.08;  // between the policies at one number of entries

}  // namespace

std::vector<nlohmann::ordered_json> phonebook_cells(const PhonebookTask& task) {
  std::vector<nlohmann::ordered_json> cells;
  for (const std::int64_t entries : task.entries) cells.push_back({{"entries", entries}});
  return cells;
}

figures::Figure phonebook_figure(const TaskReport& report, const PhonebookTask& task) {
  figures::Panel panel;
  panel.id = "exact";
  panel.x = {"entries", ""};
  panel.y = {"share of exact answers", ""};
  std::vector<std::vector<Cell>> by_entries;
  for (const auto& about : phonebook_cells(task)) {
    by_entries.push_back(cells_where(report, about));
    panel.x.categories.push_back(about["entries"].dump());
  }
  const auto grid = grid_of(report.settings);
  const auto labels = point_labels(grid);
  figures::PolicyLooks looks;
  for (std::size_t point = 0; point < grid.size(); ++point) {
    const auto look = looks.next(grid[point].spec.name);
    figures::SpreadSeries marks(labels[point], labels[point], look.colour, look.marker, kMarkSize);
    figures::LineSeries curve;
    curve.id = labels[point] + "_curve";
    curve.colour = look.colour;
    const double offset = kStep * (static_cast<double>(point) - static_cast<double>(grid.size() - 1) / 2);
    for (std::size_t i = 0; i < by_entries.size(); ++i) {
      const ScoreMean share = by_entries[i][point].score("exact", Interval::kWilson, report.settings.seed);
      const double x = static_cast<double>(i) + offset;
      marks.add(x, share.low, share.mean, share.high);
      curve.x.push_back(static_cast<float>(x));
      curve.y.push_back(static_cast<float>(share.mean));
    }
    panel.lines.push_back(std::move(curve));
    std::move(marks).put_into(panel);
  }
  figures::Figure figure;
  figure.name = "phonebook";
  figure.title = "Entries of a phone book looked up";
  figure.caption = report_caption(report);
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace keyscope::evaluation
