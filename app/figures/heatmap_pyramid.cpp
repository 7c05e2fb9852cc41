#include "app/figures/heatmap_pyramid.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace keyscope::figures {

namespace {

using Eigen::Index;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Up to four cells of a level; `weights` says how many cells of the matrix each one has the mean of.
class Quad {
 public:
  explicit Quad(Reduction reduction) : reduction_(reduction) {}

  void add(float value, float weight) {
    if (std::isnan(value)) return;
    if (reduction_ == Reduction::kMean)
      value_ += static_cast<double>(value) * weight;
    else if (weight_ == 0 || (reduction_ == Reduction::kMax && value > value_) ||
             (reduction_ == Reduction::kMin && value < value_))
      value_ = value;
    weight_ += weight;
  }

  float value() const {
    if (weight_ == 0) return kNaN;
    return static_cast<float>(reduction_ == Reduction::kMean ? value_ / weight_ : value_);
  }
  float weight() const { return static_cast<float>(weight_); }

 private:
  Reduction reduction_;
  double value_ = 0, weight_ = 0;
};

std::pair<RowMatrixF, RowMatrixF> halve(const RowMatrixF& values, const RowMatrixF& weights,
                                        Reduction reduction) {
  const Index rows = (values.rows() + 1) / 2, cols = (values.cols() + 1) / 2;
  RowMatrixF half(rows, cols), half_weights(rows, cols);
  for (Index row = 0; row < rows; ++row)
    for (Index col = 0; col < cols; ++col) {
      Quad quad(reduction);
      for (Index r = 2 * row; r < std::min(2 * row + 2, values.rows()); ++r)
        for (Index c = 2 * col; c < std::min(2 * col + 2, values.cols()); ++c)
          quad.add(values(r, c), weights(r, c));
      half(row, col) = quad.value();
      half_weights(row, col) = quad.weight();
    }
  return {std::move(half), std::move(half_weights)};
}

}  // namespace

HeatmapPyramid::HeatmapPyramid(RowMatrixF values, Reduction reduction) : reduction_(reduction) {
  RowMatrixF weights = RowMatrixF::Ones(values.rows(), values.cols());
  levels_.push_back(std::move(values));
  while (std::max(levels_.back().rows(), levels_.back().cols()) > 1) {
    auto [half, half_weights] = halve(levels_.back(), weights, reduction);
    levels_.push_back(std::move(half));
    weights = std::move(half_weights);
  }
}

const RowMatrixF& HeatmapPyramid::at(HeatmapLevel level) {
  if (level.x == level.y) return levels_.at(level.x);
  const auto known = others_.find(level);
  if (known != others_.end()) return known->second;
  const RowMatrixF& whole = levels_.front();
  ReducedMatrix reduced(whole.rows(), whole.cols(), Index{1} << level.y, Index{1} << level.x, reduction_);
  reduced.add_rows(0, whole);
  return others_.emplace(level, reduced.finish()).first->second;
}

HeatmapLevel HeatmapPyramid::level_for(double x_cells_per_pixel, double y_cells_per_pixel) const {
  return {level_for(x_cells_per_pixel), level_for(y_cells_per_pixel)};
}

std::size_t HeatmapPyramid::level_for(double cells_per_pixel) const {
  if (levels_.empty() || !(cells_per_pixel > 1)) return 0;
  // A hair of room: where a cell is a pixel, rounding must not take the next level.
  const double level = std::ceil(std::log2(cells_per_pixel) - 1e-6);
  return std::min(static_cast<std::size_t>(level), levels_.size() - 1);
}

}  // namespace keyscope::figures
