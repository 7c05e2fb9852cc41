#include "analysis/policies/unrotated.hpp"

#include <cmath>
#include <cstddef>

namespace keyscope::analysis {

RowMatrixD unrotated(const MatrixView& keys, std::span<const std::int32_t> positions,
                     const Rotation& rotation) {
  RowMatrixD rows = keys.cast<double>();
  for (Eigen::Index i = 0; i < rows.rows(); ++i)
    for (std::int64_t pair = 0; pair < rotation.n_pairs(); ++pair) {
      const double angle = static_cast<double>(positions[i]) * rotation.frequencies[pair];
      const double c = std::cos(angle), s = std::sin(angle);
      double& x = rows(i, rotation.first_of(pair));
      double& y = rows(i, rotation.second_of(pair));
      const double turned = c * x + s * y;
      y = c * y - s * x;
      x = turned;
    }
  return rows;
}

// Σ cos(p ω) and Σ sin(p ω) over positions that follow one another, by the closed form of a geometric series.
MeanRotation::MeanRotation(const Rotation& rotation, std::int64_t first, std::int64_t n)
    : rotation_(rotation) {
  for (const double frequency : rotation.frequencies) {
    const double half = frequency / 2, count = static_cast<double>(n);
    const double middle = (static_cast<double>(first) + (count - 1) / 2) * frequency;
    const double share = std::sin(half) == 0 ? 1 : std::sin(count * half) / (count * std::sin(half));
    cos_.push_back(share * std::cos(middle));
    sin_.push_back(share * std::sin(middle));
  }
}

Eigen::MatrixXd MeanRotation::turned_rows(Eigen::MatrixXd matrix) const {
  for (std::int64_t pair = 0; pair < rotation_.n_pairs(); ++pair) {
    const Eigen::Index a = rotation_.first_of(pair), b = rotation_.second_of(pair);
    const Eigen::RowVectorXd x = matrix.row(a), y = matrix.row(b);
    matrix.row(a) = cos_[pair] * x - sin_[pair] * y;
    matrix.row(b) = sin_[pair] * x + cos_[pair] * y;
  }
  return matrix;
}

Eigen::VectorXd MeanRotation::operator()(const Eigen::VectorXd& vector) const { return turned_rows(vector); }

Eigen::MatrixXd MeanRotation::operator()(const Eigen::MatrixXd& matrix) const {
  return turned_rows(turned_rows(matrix).transpose()).transpose();
}

void QueryMoments::add(const MatrixView& queries, const Rotation& rotation) {
  const Eigen::Index d = queries.cols(), n_pairs = rotation.n_pairs();
  if (n_ == 0) {
    sum_ = Eigen::VectorXd::Zero(d);
    moduli_ = Eigen::VectorXd::Zero(d - n_pairs);
    products_ = Eigen::MatrixXd::Zero(d, d);
  }
  const RowMatrixD rows = queries.cast<double>();
  sum_ += rows.colwise().sum().transpose();
  products_.noalias() += rows.transpose() * rows;
  for (Eigen::Index pair = 0; pair < n_pairs; ++pair)
    moduli_[pair] += (rows.col(rotation.first_of(pair)).array().square() +
                      rows.col(rotation.second_of(pair)).array().square())
                         .sqrt()
                         .sum();
  for (Eigen::Index still = 2 * n_pairs; still < d; ++still)
    moduli_[still - n_pairs] += rows.col(still).cwiseAbs().sum();
  n_ += queries.rows();
}

Eigen::MatrixXd QueryMoments::covariance() const {
  const Eigen::VectorXd mean = this->mean();
  return products_ / count() - mean * mean.transpose();
}

}  // namespace keyscope::analysis
