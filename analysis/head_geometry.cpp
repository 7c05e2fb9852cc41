#include "analysis/head_geometry.hpp"

#include <array>
#include <limits>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "analysis/finite_rows.hpp"
#include "analysis/quantiles.hpp"
#include "analysis/similarity.hpp"

namespace keyscope::analysis {

using Eigen::VectorXd;

NormSummary summarise_norms(const MatrixView& rows) {
  require_finite(rows, "norms");
  const VectorXd norms = row_norms(rows);
  constexpr std::array<double, 7> kProbabilities{0, 0.05, 0.25, 0.5, 0.75, 0.95, 1};
  const auto at = quantiles({norms.data(), static_cast<std::size_t>(norms.size())}, kProbabilities);
  const double mean = norms.size() > 0 ? norms.mean() : std::numeric_limits<double>::quiet_NaN();
  return {at[0], at[1], at[2], at[3], at[4], at[5], at[6], mean};
}

HeadGeometry measure_head_geometry(const MatrixView& keys, const MatrixView& queries) {
  if (keys.rows() == 0) throw InvalidInput("head geometry: there are no keys");
  if (keys.cols() != queries.cols())
    throw InvalidInput(
        fmt::format("head geometry: keys of {} columns, but queries of {}", keys.cols(), queries.cols()));
  HeadGeometry geometry;
  geometry.key_norms = summarise_norms(keys);
  geometry.query_norms = summarise_norms(queries);
  const VectorXd mean_key = mean_row(keys);
  geometry.key_cosines = cosines_to(keys, mean_key);
  geometry.key_cosines.minCoeff(&geometry.top_key);  // KeyDiff's score is the negative cosine
  if (queries.rows() == 0) {
    geometry.mean_cosine = geometry.top_key_query_cosine = std::numeric_limits<double>::quiet_NaN();
    return geometry;
  }
  const VectorXd mean_query = mean_row(queries);
  geometry.query_cosines = cosines_to(queries, mean_query);
  geometry.mean_cosine = cosine(mean_key, mean_query);
  geometry.top_key_query_cosine = cosine(keys.row(geometry.top_key).cast<double>().transpose(), mean_query);
  return geometry;
}

}  // namespace keyscope::analysis
