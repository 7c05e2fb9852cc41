#include "app/session/cell_facts.hpp"

#include <cmath>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/lifespans.hpp"
#include "app/figures/token_label.hpp"
#include "app/measures/token_story.hpp"

namespace keyscope::session {
namespace {

std::string token_line(const recording::RecordingInfo& info, int run, const char* what,
                       std::int64_t position) {
  return fmt::format("{} {}  {}", what, figures::format_count(position),
                     figures::token_label(measures::token_bytes(info, run, position)));
}

// Of several tokens the first of each stands in the other lines.
std::string value_line(const figures::Heatmap& map, float value, const char* why_none) {
  std::string line = std::isnan(value) ? std::string(why_none)
                                       : fmt::format("{} {}", map.long_name,
                                                     figures::format_value(static_cast<double>(value)));
  if (const auto rows = static_cast<long long>(map.y_step), columns = static_cast<long long>(map.x_step);
      rows > 1 || columns > 1)
    line += fmt::format(", {} of {} × {} cells", map.reduction, rows, columns);
  return line;
}

}  // namespace

std::vector<std::string> cell_facts(const recording::RecordingInfo& info, int run, const std::string& figure,
                                    const figures::Heatmap& map, const MatrixCell& cell) {
  if (figures::has_block_columns(figure))
    return {token_line(info, run, "token", cell.row), fmt::format("during block {}", cell.column),
            value_line(map, cell.value, "not in the cache")};
  const bool attends = map.id == "attention";  // its panel, also beside cosines
  return {token_line(info, run, attends ? "query" : "key", cell.row),
          token_line(info, run, attends ? "attends to key" : "and key", cell.column),
          value_line(map, cell.value, attends ? "not visible to this query" : "no value")};
}

}  // namespace keyscope::session
