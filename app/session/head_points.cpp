#include "app/session/head_points.hpp"

#include <algorithm>
#include <utility>

#include "app/figures/catalogue.hpp"
#include "app/figures/keyspace_data.hpp"

namespace keyscope::session {

namespace {

using recording::Recording;
using recording::RecordingInfo;

constexpr int kComponents = 3;

// Means over the tokens seen by the end of each block, as running sums in float64.
//   rows: (n_rows, width), the first of them token `first`; means: (n_blocks, width), filled from
//   `first_block`
void running_means(const RowMatrixF& rows, std::int64_t first, const std::vector<std::int64_t>& seen,
                   std::size_t first_block, RowMatrixD& means) {
  Eigen::RowVectorXd sum = Eigen::RowVectorXd::Zero(rows.cols());
  if (first_block > 0) sum = means.row(first_block - 1) * static_cast<double>(seen[first_block - 1]);
  std::int64_t next = first;
  for (std::size_t block = first_block; block < seen.size(); ++block) {
    for (; next < seen[block]; ++next) sum += rows.row(next - first).cast<double>();
    means.row(block) = sum / static_cast<double>(std::max<std::int64_t>(1, seen[block]));
  }
}

// The mean over the group of each token's queries: what the mean query of a block is made of.
RowMatrixF group_mean_queries(const Recording& recording, const RecordingInfo& info, const HeadKey& head,
                              std::int64_t first, std::int64_t count) {
  const int group = info.model.group_size(head.layer);
  RowMatrixF mean = RowMatrixF::Zero(count, info.model.heads(head.layer).head_dim);
  for (int g = 0; g < group; ++g)
    mean += recording.queries(head.run, head.layer, head.kv_head * group + g, first, count);
  return mean / static_cast<float>(group);
}

void include_rows(figures::Extent& extent, const RowMatrixD& coordinates) {
  for (Eigen::Index row = 0; row < coordinates.rows(); ++row)
    extent.include(coordinates(row, 0), coordinates(row, 1));
}

figures::Extent extent_of(const HeadPoints& points) {
  figures::Extent extent = figures::Extent::none();
  for (Eigen::Index row = 0; row < points.coordinates.rows(); ++row)
    extent.include(points.coordinates(row, 0), points.coordinates(row, 1));
  const auto project = [&](const RowMatrixD& rows) -> RowMatrixD {
    return (rows.rowwise() - points.basis->mean.transpose()) * points.basis->axes;
  };
  if (points.mean_key.rows() > 0) include_rows(extent, project(points.mean_key));
  if (points.mean_query.rows() > 0) include_rows(extent, project(points.mean_query));
  return extent;
}

// Tokens of an earlier reading, if there is one that this one continues.
std::int64_t tokens_to_keep(const HeadPoints* earlier, const HeadPoints& now) {
  const bool same = earlier != nullptr && earlier->head == now.head && earlier->n_tokens <= now.n_tokens &&
                    earlier->n_blocks() > 0 && earlier->seen.back() == earlier->n_tokens;
  return same ? earlier->n_tokens : 0;
}

RowMatrixF stack(const Eigen::Ref<const RowMatrixF>& above, const RowMatrixF& below) {
  RowMatrixF all(above.rows() + below.rows(), below.cols());
  all.topRows(above.rows()) = above;
  all.bottomRows(below.rows()) = below;
  return all;
}

}  // namespace

bool outgrown(std::int64_t n_then, std::int64_t n_now, const RecordingInfo& info, bool grows) {
  return n_now > n_then && (!grows || n_now >= 2 * n_then || n_now == info.n_prompt());
}

std::size_t HeadPoints::bytes() const {
  const std::size_t floats = keys.size() + coordinates.size();
  const std::size_t doubles = mean_key.size() + mean_query.size();
  return 4 * floats + 8 * doubles + n_tokens * 24;
}

namespace {

// What a reading begins with.
std::shared_ptr<HeadPoints> begin_points(const RecordingInfo& info, const HeadKey& head,
                                         std::shared_ptr<const figures::KeyspaceBasis> basis) {
  auto points = std::make_shared<HeadPoints>();
  const recording::RunInfo& run = info.runs.at(head.run);
  points->head = head;
  points->basis = std::move(basis);
  points->n_tokens = run.n_tokens;
  for (std::int64_t block = 0; block < run.blocks_done; ++block)
    points->seen.push_back(recording::tokens_seen(run, block));
  return points;
}

// Means per block: those of an earlier reading, if it has any, then those of rows from token `first`.
void continue_means(const HeadPoints& points, const RowMatrixD* earlier, const RowMatrixF& rows,
                    std::int64_t first, RowMatrixD& means) {
  const std::size_t first_block = earlier != nullptr ? earlier->rows() : 0;
  means.resize(static_cast<Eigen::Index>(points.seen.size()), rows.cols());
  if (first_block > 0) means.topRows(static_cast<Eigen::Index>(first_block)) = *earlier;
  running_means(rows, first, points.seen, first_block, means);
}

// Keys, where they lie, and what became of them.
void read_keys(const Recording& recording, const HeadPoints* earlier, HeadPoints& points) {
  const HeadKey& head = points.head;
  const std::int64_t first = tokens_to_keep(earlier, points);
  const bool same_basis = first > 0 && earlier->basis == points.basis;
  const RowMatrixF keys = recording.keys(head.run, head.layer, head.kv_head, first, points.n_tokens - first);
  points.keys = first > 0 ? stack(earlier->keys.topRows(first), keys) : keys;
  points.coordinates = same_basis ? stack(earlier->coordinates.topRows(first),
                                          figures::project_rows(*points.basis, keys, kComponents))
                                  : figures::project_rows(*points.basis, points.keys, kComponents);
  points.trace = recording.trace(head.run, head.layer, head.kv_head);
  points.trace.evicted_at.resize(points.n_tokens, -1);  // a live recording may have gone on meanwhile
  continue_means(points, first > 0 ? &earlier->mean_key : nullptr, keys, first, points.mean_key);
}

void read_mean_queries(const Recording& recording, const RecordingInfo& info, const HeadPoints* earlier,
                       HeadPoints& points) {
  const bool has_some = tokens_to_keep(earlier, points) > 0 && earlier->mean_query.rows() > 0;
  const std::int64_t first = has_some ? earlier->n_tokens : 0;
  const RowMatrixF queries = group_mean_queries(recording, info, points.head, first, points.n_tokens - first);
  continue_means(points, has_some ? &earlier->mean_query : nullptr, queries, first, points.mean_query);
}

}  // namespace

std::shared_ptr<const HeadPoints> read_head_points(const Recording& recording, const RecordingInfo& info,
                                                   const HeadKey& head,
                                                   std::shared_ptr<const figures::KeyspaceBasis> basis,
                                                   const HeadPoints* earlier) {
  const auto points = begin_points(info, head, std::move(basis));
  read_keys(recording, earlier, *points);
  if (info.queries) read_mean_queries(recording, info, earlier, *points);
  points->extent = extent_of(*points);
  return points;
}

bool worth_sketching(const RecordingInfo& info) {
  constexpr std::int64_t kManyNumbers = std::int64_t{2} << 20U;
  return info.queries &&
         info.n_prompt() * info.model.n_heads / info.model.n_kv_heads * info.model.head_dim >= kManyNumbers;
}

std::shared_ptr<const HeadPoints> sketch_head_points(const Recording& recording, const RecordingInfo& info,
                                                     const HeadKey& head) {
  const auto points = begin_points(info, head,
                                   std::make_shared<const figures::KeyspaceBasis>(
                                       figures::sketch_keyspace_basis(recording, head.layer, head.kv_head)));
  read_keys(recording, nullptr, *points);
  points->sketched = true;
  points->extent = extent_of(*points);
  return points;
}

std::shared_ptr<const figures::KeyspaceBasis> BasisCache::find(const RecordingInfo& info, int layer,
                                                               int kv_head, bool grows) const {
  const std::lock_guard lock(mutex_);
  return known(info, layer, kv_head, grows);
}

std::shared_ptr<const figures::KeyspaceBasis> BasisCache::known(const RecordingInfo& info, int layer,
                                                                int kv_head, bool grows) const {
  const auto at = fitted_.find({layer, kv_head});
  if (at == fitted_.end() || at->second->run != figures::reference_run(info)) return nullptr;
  return outgrown(at->second->n_tokens, figures::tokens_to_fit(info), info, grows) ? nullptr : at->second;
}

// Nobody waits for another one's fit. Where two fit the same at the same time, both get the first one.
std::shared_ptr<const figures::KeyspaceBasis> BasisCache::get(const recording::Recording& recording,
                                                              const RecordingInfo& info, int layer,
                                                              int kv_head, bool grows) {
  if (auto before = find(info, layer, kv_head, grows)) return before;
  auto basis =
      std::make_shared<const figures::KeyspaceBasis>(figures::fit_keyspace_basis(recording, layer, kv_head));
  const std::lock_guard lock(mutex_);
  if (auto first = known(info, layer, kv_head, grows)) return first;
  fitted_[{layer, kv_head}] = basis;
  return basis;
}

namespace {

RowMatrixF read_queries(const recording::Recording& recording, const HeadPoints& points) {
  const HeadKey& head = points.head;
  return recording.group_queries(head.run, head.layer, head.kv_head, 0, points.n_tokens);
}

}  // namespace

bool QueryCache::Held::is_of(const HeadPoints& points) const {
  return head == points.head && n_tokens == points.n_tokens && basis == points.basis;
}

RowMatrixF QueryCache::place(const recording::Recording& recording, const HeadPoints& points,
                             std::int64_t block, figures::Projection projection) {
  const std::int64_t n_seen = points.seen.at(block);
  const Eigen::Index columns = figures::columns_of(projection);
  const bool anchored = projection == figures::Projection::kAnchor;
  Held& held = anchored ? recorded_ : projected_;
  if (!held.is_of(points)) {
    held = {};  // before the next is read: both would take twice the memory
    RowMatrixF rows = recorded_.is_of(points) ? recorded_.rows : read_queries(recording, points);
    if (!anchored) rows = figures::project_rows(*points.basis, rows, 3);
    held = {points.head, points.n_tokens, points.basis, std::move(rows)};
  }
  const Eigen::Index group = n_seen > 0 ? held.rows.rows() / points.n_tokens : 0;
  RowMatrixF placed(group * n_seen, columns);
  for (Eigen::Index g = 0; g < group; ++g) {
    const auto seen = held.rows.middleRows(g * points.n_tokens, n_seen);
    if (anchored)
      placed.middleRows(g * n_seen, n_seen) =
          figures::anchor_coordinates(seen, points.mean_key.row(block).transpose());
    else
      placed.middleRows(g * n_seen, n_seen) = seen.leftCols(columns);
  }
  if (static_cast<std::size_t>(held.rows.size()) * sizeof(float) > kMostBytes) held = {};
  return placed;
}

}  // namespace keyscope::session
