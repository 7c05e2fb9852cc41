#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <Eigen/Core>

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

// How a layer's queries and keys turn with their position p (RoPE, arXiv 2104.09864): pair f by the angle p
// ω_f. Pair f are coordinates f and n_pairs + f, or 2f and 2f + 1 where it is interleaved; those past the
// pairs stay.
struct Rotation {
  std::vector<double> frequencies = {};  // (n_pairs) ω; empty: nothing turns
  bool interleaved = false;

  std::int64_t n_pairs() const { return static_cast<std::int64_t>(frequencies.size()); }
  std::int64_t first_of(std::int64_t pair) const { return interleaved ? 2 * pair : pair; }
  std::int64_t second_of(std::int64_t pair) const { return interleaved ? 2 * pair + 1 : n_pairs() + pair; }
};

// Keys as they were before they turned: row i back by positions[i].
RowMatrixD unrotated(const MatrixView& keys, std::span<const std::int32_t> positions,
                     const Rotation& rotation);

// Positions to come at which Expected Attention and CapKV expect queries.
inline constexpr std::int64_t kFuturePositions = 512;

// The mean rotation of the positions first, …, first + n - 1 of a vector, and of a matrix from both sides
// (R̄ x and R̄ M R̄ᵀ of Expected Attention, arXiv 2510.00636).
class MeanRotation {
 public:
  MeanRotation(const Rotation& rotation, std::int64_t first, std::int64_t n);
  Eigen::VectorXd operator()(const Eigen::VectorXd& vector) const;
  Eigen::MatrixXd operator()(const Eigen::MatrixXd& matrix) const;

 private:
  Eigen::MatrixXd turned_rows(Eigen::MatrixXd matrix) const;

  const Rotation& rotation_;
  std::vector<double> cos_, sin_;  // means over the positions
};

// What all queries of a query head were so far, before they turned.
class QueryMoments {
 public:
  //   queries: (n, head_dim), before RoPE
  void add(const MatrixView& queries, const Rotation& rotation);

  std::int64_t n() const { return n_; }
  Eigen::VectorXd mean() const { return sum_ / count(); }
  Eigen::MatrixXd covariance() const;  // divided by their number
  // Mean length of each pair of coordinates that turn together, and then of those that do not turn.
  Eigen::VectorXd mean_moduli() const { return moduli_ / count(); }

 private:
  double count() const { return static_cast<double>(n_); }

  std::int64_t n_ = 0;
  Eigen::VectorXd sum_, moduli_;
  Eigen::MatrixXd products_;  // Σ q qᵀ
};

}  // namespace keyscope::analysis
