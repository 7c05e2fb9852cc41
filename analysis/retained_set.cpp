#include "analysis/retained_set.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "analysis/matrix_view.hpp"
#include "analysis/row_kernels.hpp"
#include "analysis/vector_math.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::Index;

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

void require_position(std::int32_t position, std::size_t n_tokens, const char* subject) {
  if (position < 0 || static_cast<std::size_t>(position) >= n_tokens)
    throw InvalidInput(fmt::format("{}: position {} of {} tokens", subject, position, n_tokens));
}

void check_attention(const MatrixView& queries, std::span<const std::int32_t> query_positions,
                     const MatrixView& keys, const MatrixView& values, std::span<const std::int32_t> retained,
                     std::span<const AttentionRules> rules) {
  if (rules.empty() || queries.rows() % static_cast<Index>(rules.size()) != 0)
    throw InvalidInput(fmt::format("attention: {} queries of {} query heads", queries.rows(), rules.size()));
  if (queries.cols() != keys.cols() || values.rows() != keys.rows() ||
      query_positions.size() != static_cast<std::size_t>(queries.rows()))
    throw InvalidInput(fmt::format(
        "attention: queries ({}, {}) at {} positions, keys ({}, {}) and values ({}, {}) do not match",
        queries.rows(), queries.cols(), query_positions.size(), keys.rows(), keys.cols(), values.rows(),
        values.cols()));
  const auto n_tokens = static_cast<std::size_t>(keys.rows());
  for (const auto position : query_positions) require_position(position, n_tokens, "output error");
  for (const auto position : retained) require_position(position, n_tokens, "output error");
  require_finite(queries, "attention: queries");
  require_finite(keys, "attention: keys");
  require_finite(values, "attention: values");
}

// The part of a tile of rows that a query sees.
struct Range {
  Index first = 0;
  Index end = 0;
};

//   positions: of the tile's rows, ascending
Range visible(std::span<const std::int32_t> positions, std::int32_t query, const AttentionRules& rules) {
  const auto end = std::upper_bound(positions.begin(), positions.end(), query);
  const auto first = std::lower_bound(positions.begin(), end, rules.oldest_visible(query));
  return {first - positions.begin(), end - positions.begin()};
}

// A softmax over rows that come tile by tile, of one query: weights are relative to exp(largest).
struct Softmax {
  double largest;
  double total;

  explicit Softmax(double sink) : largest(sink), total(std::isinf(sink) ? 0 : 1) {}

  // Makes weights of a tile's products; zero for rows that are not seen. Returns what the weights of earlier
  // tiles are to be multiplied by.
  double add(Eigen::Ref<Eigen::RowVectorXd> products, const Range& seen, const AttentionRules& rules) {
    const Index n = seen.end - seen.first;
    products.head(seen.first).setZero();
    products.tail(products.size() - seen.end).setZero();
    if (n == 0) return 1;
    auto scores = products.segment(seen.first, n);
    if (rules.softcap > 0)
      for (double& score : scores) score = rules.score(score);
    else
      scores *= rules.scale;
    const double before = largest;
    largest = std::max(largest, scores.maxCoeff());
    const double factor = std::isinf(before) ? 0 : std::exp(before - largest);
    const std::span<double> weights(scores.data(), static_cast<std::size_t>(n));
    total = total * factor + exponentials(weights, largest, weights);
    return factor;
  }
};

}  // namespace

double attention_mass_kept(std::span<const double> attention_received,
                           std::span<const std::int32_t> retained) {
  double kept = 0;
  double total = 0;
  for (const double received : attention_received) total += received;
  for (const auto position : retained) {
    require_position(position, attention_received.size(), "attention mass kept");
    kept += attention_received[position];
  }
  return total > 0 && std::isfinite(total) ? kept / total : kUndefined;
}

double jaccard(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  std::size_t i = 0;
  std::size_t j = 0;
  std::size_t n_shared = 0;
  while (i < a.size() && j < b.size()) {
    n_shared += a[i] == b[j] ? 1U : 0U;
    const bool a_first = a[i] <= b[j];
    const bool b_first = b[j] <= a[i];
    i += a_first ? 1U : 0U;
    j += b_first ? 1U : 0U;
  }
  const std::size_t n_either = a.size() + b.size() - n_shared;
  return n_either > 0 ? static_cast<double>(n_shared) / static_cast<double>(n_either) : kUndefined;
}

RowMatrixD attend(const MatrixView& queries, std::span<const std::int32_t> query_positions,
                  const MatrixView& keys, const MatrixView& values, std::span<const std::int32_t> rows,
                  std::span<const AttentionRules> rules) {
  check_attention(queries, query_positions, keys, values, rows, rules);
  constexpr std::size_t kTileRows = 1024;  // whose keys and values stay in the second cache
  constexpr Index kTileQueries = 32;
  const Index n_of_head = queries.rows() / static_cast<Index>(rules.size());
  RowMatrixD outputs = RowMatrixD::Zero(queries.rows(), values.cols());
  std::vector<Softmax> softmax;
  for (Index i = 0; i < queries.rows(); ++i) softmax.emplace_back(rules[i / n_of_head].sink);
  RowMatrixD weights, products;
  for (std::size_t first_row = 0; first_row < rows.size(); first_row += kTileRows) {
    const auto tile = rows.subspan(first_row, std::min(kTileRows, rows.size() - first_row));
    const auto tile_keys = PackedRows::of_rows(keys, tile),
               tile_values = PackedRows::of_columns(values, tile);
    for (Index first = 0; first < queries.rows(); first += kTileQueries) {
      const Index n = std::min(kTileQueries, queries.rows() - first);
      tile_keys.multiply(queries.middleRows(first, n).cast<double>(), weights);
      for (Index i = 0; i < n; ++i) {
        const AttentionRules& head = rules[(first + i) / n_of_head];
        const Range seen = visible(tile, query_positions[first + i], head);
        outputs.row(first + i) *= softmax[first + i].add(weights.row(i), seen, head);
      }
      tile_values.multiply(weights, products);
      outputs.middleRows(first, n) += products;
    }
  }
  for (Index i = 0; i < queries.rows(); ++i)
    if (softmax[i].total > 0) outputs.row(i) /= softmax[i].total;
  return outputs;
}

double output_error(const RowMatrixD& full, const RowMatrixD& retained) {
  if (full.rows() != retained.rows() || full.cols() != retained.cols())
    throw InvalidInput(fmt::format("output error: outputs ({}, {}) and ({}, {}) do not match", full.rows(),
                                   full.cols(), retained.rows(), retained.cols()));
  const double norm = full.norm();
  return norm > 0 ? (retained - full).norm() / norm : kUndefined;
}

}  // namespace keyscope::analysis
