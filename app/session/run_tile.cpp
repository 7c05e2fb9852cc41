#include "app/session/run_tiles.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"

namespace keyscope::session {

bool is_of_one_run(std::string_view view) {
  if (view == kKeyspaceView) return true;
  return is_figure_view(view) && !figures::shows_several_runs(view);
}

TileTitle tile_title(const RunTile& tile) {
  const recording::RunPlan& plan = tile.run().plan;
  TileTitle title{plan.name, "full cache", {}};
  if (plan.policy != "none") title.budget = fmt::format("N = {}", figures::format_count(plan.budget));
  if (tile.id.source > 0) title.budget += ", earlier";
  if (tile.n_seen > 0)
    title.kept =
        fmt::format("{} of {}", figures::format_count(tile.n_kept), figures::format_count(tile.n_seen));
  return title;
}

void show_points(RunTile& tile, std::shared_ptr<const HeadPoints> points, std::int64_t block) {
  if (points == tile.points && block == tile.block) return;
  tile.points = std::move(points);
  tile.block = block;
  tile.n_seen = tile.n_kept = 0;
  if (!tile.points || block < 0 || block >= tile.points->n_blocks()) return;
  tile.n_seen = tile.points->seen[static_cast<std::size_t>(block)];
  const auto first = tile.points->trace.evicted_at.begin();
  tile.n_kept =
      std::count_if(first, first + tile.n_seen, [&](std::int32_t gone) { return gone < 0 || gone > block; });
}

}  // namespace keyscope::session
