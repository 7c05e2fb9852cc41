#include "app/figures/keyspace_data.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "analysis/pca.hpp"
#include "app/figures/head_selection.hpp"

namespace keyscope::figures {
namespace {

using recording::Recording;

constexpr int kMaxComponents = 3;
constexpr std::int64_t kSketchStretch = 32, kSketchStep = 16 * kSketchStretch;

// What the rows cannot be fitted for is said of the head that they are of.
analysis::Pca axes_of(const recording::RecordingInfo& info, const KeyspaceBasis& basis,
                      std::span<const MatrixView> rows, int n_components) {
  try {
    return analysis::fit_pca(rows, n_components);
  } catch (const InvalidInput& error) {
    throw FileError(fmt::format("{}: run {}, layer {}, KV head {}: keys{}: {}", info.source,
                                info.runs[static_cast<std::size_t>(basis.run)].plan.name, basis.layer,
                                basis.kv_head, basis.with_queries ? " and queries" : "", error.what()));
  }
}

// Fits the axes on the rows that `read(basis, n)` gives of the prompt's first n tokens.
template <typename Read>
KeyspaceBasis fit(const Recording& recording, int layer, int kv_head, const Read& read) {
  const auto info = recording.info();
  require_layer(*info, layer);
  require_kv_head(*info, kv_head);
  require_keys(*info);
  KeyspaceBasis basis;
  basis.run = reference_run(*info);
  basis.layer = layer;
  basis.kv_head = kv_head;
  const Eigen::Index d = info->model.head_dim;
  basis.mean.setZero(d);
  basis.axes.setZero(d, kMaxComponents);
  basis.explained.assign(kMaxComponents, std::nan(""));
  if (basis.run < 0) return basis;
  const std::int64_t n = std::min(info->n_prompt(), info->runs[basis.run].n_tokens);
  if (n == 0) return basis;
  basis.with_queries = info->queries;
  const std::vector<RowMatrixF> rows = read(basis, n);
  const std::vector<MatrixView> blocks(rows.begin(), rows.end());
  const int n_components = std::min<int>(kMaxComponents, info->model.head_dim);
  const analysis::Pca pca = axes_of(*info, basis, blocks, n_components);
  basis.mean = pca.mean;
  basis.axes.leftCols(n_components) = pca.axes;
  std::copy_n(pca.explained_ratio.data(), n_components, basis.explained.begin());
  return basis;
}

}  // namespace

RowMatrixF group_queries(const Recording& recording, int run, int layer, int kv_head, std::int64_t count) {
  const auto info = recording.info();
  const int group = info->model.group_size();
  RowMatrixF all(group * count, info->model.head_dim);
  for (int g = 0; g < group; ++g)
    all.middleRows(g * count, count) = recording.queries(run, layer, kv_head * group + g, 0, count);
  return all;
}

KeyspaceBasis fit_keyspace_basis(const Recording& recording, int layer, int kv_head) {
  return fit(recording, layer, kv_head, [&](const KeyspaceBasis& basis, std::int64_t n) {
    std::vector<RowMatrixF> rows{recording.keys(basis.run, layer, kv_head, 0, n)};
    if (basis.with_queries) rows.push_back(group_queries(recording, basis.run, layer, kv_head, n));
    return rows;
  });
}

KeyspaceBasis sketch_keyspace_basis(const Recording& recording, int layer, int kv_head) {
  return fit(recording, layer, kv_head, [&](const KeyspaceBasis& basis, std::int64_t n) {
    const int group = recording.info()->model.group_size();
    std::vector<RowMatrixF> rows;
    for (std::int64_t first = 0; first < n; first += kSketchStep) {
      const std::int64_t count = std::min(kSketchStretch, n - first);
      rows.push_back(recording.keys(basis.run, layer, kv_head, first, count));
      for (int g = 0; basis.with_queries && g < group; ++g)
        rows.push_back(recording.queries(basis.run, layer, kv_head * group + g, first, count));
    }
    return rows;
  });
}

RowMatrixF project_rows(const KeyspaceBasis& basis, const MatrixView& rows, int components) {
  if (components < 1 || components > kMaxComponents)
    throw InvalidInput(
        fmt::format("{} components are asked for; expected 1 to {}", components, kMaxComponents));
  if (rows.cols() != basis.mean.size())
    throw InvalidInput(
        fmt::format("rows of {} coordinates do not fit a basis of {}", rows.cols(), basis.mean.size()));
  analysis::Pca pca;
  pca.mean = basis.mean;
  pca.axes = basis.axes.leftCols(components);
  return analysis::project(pca, rows).cast<float>();
}

std::string component_label(const KeyspaceBasis& basis, int component) {
  const double share = basis.explained.at(static_cast<std::size_t>(component));
  if (std::isnan(share)) return fmt::format("PC {}", component + 1);
  return fmt::format("PC {} ({:.1f} %)", component + 1, 100 * share);
}

}  // namespace keyscope::figures
