#include "app/figures/reduction.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::figures {
namespace {

Eigen::Index divided_up(Eigen::Index n, Eigen::Index by) { return (n + by - 1) / by; }

Eigen::Index square_factor(Eigen::Index n_rows, Eigen::Index n_cols, Eigen::Index max_size) {
  if (max_size < 1)
    throw InvalidInput(
        fmt::format("a heatmap of at most {} cells is asked for, expected 1 or more", max_size));
  return std::max<Eigen::Index>(1, divided_up(std::max(n_rows, n_cols), max_size));
}

}  // namespace

std::string_view reduction_name(Reduction reduction) {
  switch (reduction) {
    case Reduction::kMax:
      return "max";
    case Reduction::kMin:
      return "min";
    case Reduction::kFirst:
      return "first";
    case Reduction::kMean:
      break;
  }
  return "mean";
}

Reduction parse_reduction(std::string_view name) {
  for (const Reduction reduction : {Reduction::kMean, Reduction::kMax, Reduction::kMin, Reduction::kFirst})
    if (name == reduction_name(reduction)) return reduction;
  throw UsageError(fmt::format("'{}' is no reduction; there are: mean, max, min, first", name));
}

ReducedMatrix::ReducedMatrix(Eigen::Index n_rows, Eigen::Index n_cols, Eigen::Index max_size,
                             Reduction reduction)
    : ReducedMatrix(n_rows, n_cols, square_factor(n_rows, n_cols, max_size),
                    square_factor(n_rows, n_cols, max_size), reduction) {}

ReducedMatrix::ReducedMatrix(Eigen::Index n_rows, Eigen::Index n_cols, Eigen::Index rows, Eigen::Index cols,
                             Reduction reduction)
    : rows_per_cell_(rows), cols_per_cell_(cols), reduction_(reduction) {
  if (rows < 1 || cols < 1)
    throw InvalidInput(fmt::format("cells of {} x {} are asked for, expected 1 or more", rows, cols));
  sum_.setZero(divided_up(n_rows, rows), divided_up(n_cols, cols));
  count_.setZero(sum_.rows(), sum_.cols());
}

// Sums and counts stay in registers along the columns of one cell; a branch per value would cost more than
// the sum itself, so NaN is left out by comparison.
void ReducedMatrix::add_rows(Eigen::Index first, const MatrixView& band) {
  for (Eigen::Index r = 0; r < band.rows(); ++r) {
    const Eigen::Index row = (first + r) / rows_per_cell_;
    const float* values = band.data() + r * band.outerStride();
    for (Eigen::Index cell = 0; cell < sum_.cols(); ++cell) {
      const Eigen::Index begin = cell * cols_per_cell_, end = std::min(begin + cols_per_cell_, band.cols());
      double sum = 0;
      float high = -std::numeric_limits<float>::infinity(), low = -high;
      std::int64_t count = 0;
      for (Eigen::Index c = begin; c < end; ++c) {
        const float value = values[c];
        const bool there = value == value;
        sum += there ? value : 0.0F;
        high = there && value > high ? value : high;
        low = there && value < low ? value : low;
        count += there;
      }
      if (count == 0) continue;
      Eigen::Index leading = begin;
      while (std::isnan(values[leading])) ++leading;
      add_cell(row, cell, sum, low, high, values[leading], count);
    }
  }
}

void ReducedMatrix::add_cell(Eigen::Index row, Eigen::Index column, double sum, float low, float high,
                             float first, std::int64_t count) {
  double& cell = sum_(row, column);
  const bool empty = count_(row, column) == 0;
  switch (reduction_) {
    case Reduction::kMean:
      cell += sum;
      break;
    case Reduction::kMax:
      cell = empty ? high : std::max<double>(cell, high);
      break;
    case Reduction::kMin:
      cell = empty ? low : std::min<double>(cell, low);
      break;
    case Reduction::kFirst:
      if (empty) cell = first;
      break;
  }
  count_(row, column) += count;
}

RowMatrixF ReducedMatrix::finish() {
  RowMatrixF result(sum_.rows(), sum_.cols());
  for (Eigen::Index i = 0; i < sum_.size(); ++i) {
    const auto count = static_cast<double>(count_.data()[i]);
    const double cell = reduction_ == Reduction::kMean ? sum_.data()[i] / count : sum_.data()[i];
    result.data()[i] = count > 0 ? static_cast<float>(cell) : std::numeric_limits<float>::quiet_NaN();
  }
  return result;
}

std::string reduction_note(const Heatmap& heatmap, std::int64_t n_tokens) {
  if (n_tokens == 0) return "no token was seen yet";
  if (heatmap.x_step <= 1) return "";
  const auto step = static_cast<long long>(heatmap.x_step);
  return fmt::format("showing {} of {} rows and columns: {} of each {} × {} cells",
                     format_count(heatmap.values.rows()), format_count(n_tokens), heatmap.reduction, step,
                     step);
}

}  // namespace keyscope::figures
