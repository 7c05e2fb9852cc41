#include "app/session/query_cache.hpp"

#include <utility>

#include "app/figures/key_placement.hpp"

namespace keyscope::session {
namespace {

RowMatrixF read_queries(const recording::Recording& recording, const HeadPoints& points) {
  const HeadKey& head = points.head;
  return figures::group_queries(recording, head.run, head.layer, head.kv_head, points.n_tokens);
}

}  // namespace

bool QueryCache::Held::is_of(const HeadPoints& points) const {
  return head == points.head && n_tokens == points.n_tokens && basis == points.basis;
}

RowMatrixF QueryCache::place(const recording::Recording& recording, const HeadPoints& points,
                             std::int64_t block, figures::Projection projection) {
  const std::int64_t n_seen = points.seen.at(static_cast<std::size_t>(block));
  const Eigen::Index dimensions = figures::dimensions_of(projection);
  const bool anchored = projection == figures::Projection::kAnchor;
  Held& held = anchored ? recorded_ : projected_;
  if (!held.is_of(points)) {
    held = {};  // before the next is read: both would take twice the memory
    RowMatrixF rows = recorded_.is_of(points) ? recorded_.rows : read_queries(recording, points);
    if (!anchored) rows = figures::project_rows(*points.basis, rows, 3);
    held = {points.head, points.n_tokens, points.basis, std::move(rows)};
  }
  const Eigen::Index group = n_seen > 0 ? held.rows.rows() / points.n_tokens : 0;
  RowMatrixF placed(group * n_seen, dimensions);
  for (Eigen::Index g = 0; g < group; ++g) {
    const auto seen = held.rows.middleRows(g * points.n_tokens, n_seen);
    if (anchored)
      placed.middleRows(g * n_seen, n_seen) =
          figures::anchor_coordinates(seen, points.mean_key.row(block).transpose());
    else
      placed.middleRows(g * n_seen, n_seen) = seen.leftCols(dimensions);
  }
  if (static_cast<std::size_t>(held.rows.size()) * sizeof(float) > kMostBytes) held = {};
  return placed;
}

}  // namespace keyscope::session
