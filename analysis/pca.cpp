#include "analysis/pca.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include <Spectra/MatOp/DenseSymMatProd.h>
#include <Spectra/SymEigsSolver.h>
#include <fmt/format.h>

#include "analysis/matrix_view.hpp"
#include "analysis/row_kernels.hpp"
#include "analysis/symmetric_solvers.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {

namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

Index check_blocks(std::span<const MatrixView> blocks, int n_components) {
  Index n_rows = 0;
  for (const auto& block : blocks) {
    if (block.cols() != blocks.front().cols())
      throw InvalidInput(fmt::format("PCA: blocks of {} and of {} columns do not share a basis",
                                     blocks.front().cols(), block.cols()));
    n_rows += block.rows();
  }
  if (n_rows == 0) throw InvalidInput("PCA: there are no rows to fit a basis on");
  if (n_components < 1 || n_components > blocks.front().cols())
    throw InvalidInput(fmt::format("PCA: {} components of rows with {} columns; 1 to that many exist",
                                   n_components, blocks.front().cols()));
  return n_rows;
}

// The mean of the first rows: near that of all of them, as a rule.
VectorXd early_mean(std::span<const MatrixView> blocks) {
  constexpr Index kRows = 128;
  VectorXd sum = VectorXd::Zero(blocks.front().cols());
  Index n = 0;
  for (const auto& block : blocks) {
    const auto rows = block.topRows(std::min(block.rows(), kRows - n));
    add_rows(rows, {sum.data(), static_cast<std::size_t>(sum.size())});
    n += rows.rows();
  }
  return sum / static_cast<double>(n);
}

struct Scatter {
  VectorXd mean;
  MatrixXd matrix;  // sum over all rows of (x - mean)(x - mean)ᵀ
};

// Around an origin, and from there around the mean.
Scatter scatter_around(std::span<const MatrixView> blocks, Index n_rows, const VectorXd& origin) {
  GramSum gram(origin.size());
  for (const auto& block : blocks) gram.add_around(block, origin);
  const auto n = static_cast<double>(n_rows);
  const VectorXd shift = gram.row_sum() / n;
  // Float64 holds every sum of finite float32 numbers: only where it is not finite is there one to be named.
  if (!shift.allFinite())
    for (const auto& block : blocks) require_finite(block, "PCA");
  return {origin + shift, gram.matrix() - n * shift * shift.transpose()};
}

// In one pass over the rows. Squared around a point near the mean: keys lie far from the origin, and their
// raw second moments would bury the spread. Where the first rows lie far from the rest, a second pass.
Scatter scatter_of(std::span<const MatrixView> blocks, Index n_rows) {
  constexpr double kFar = 10;  // in standard deviations: two of 16 digits are lost
  const VectorXd origin = early_mean(blocks);
  Scatter scatter = scatter_around(blocks, n_rows, origin);
  const double squared_shift = (scatter.mean - origin).squaredNorm() * static_cast<double>(n_rows);
  if (squared_shift <= kFar * kFar * scatter.matrix.trace()) return scatter;
  return scatter_around(blocks, n_rows, scatter.mean);
}

void fix_signs(MatrixXd& vectors) {
  for (Index j = 0; j < vectors.cols(); ++j) {
    Index largest = 0;
    vectors.col(j).cwiseAbs().maxCoeff(&largest);
    if (vectors(largest, j) < 0) vectors.col(j) *= -1;
  }
}

}  // namespace

Pca fit_pca(std::span<const MatrixView> blocks, int n_components) {
  if (blocks.empty()) throw InvalidInput("PCA: there are no rows to fit a basis on");
  const Index n_rows = check_blocks(blocks, n_components);
  Pca pca;
  auto [mean, scatter] = scatter_of(blocks, n_rows);
  pca.mean = std::move(mean);
  Eigenpairs pairs = leading_eigenpairs(scatter, n_components);
  pca.relative_residual = relative_residual(scatter, pairs);
  fix_signs(pairs.vectors);
  pca.axes = pairs.vectors;
  const VectorXd values = pairs.values.cwiseMax(0);  // rounding can leave -1e-17 where the variance is zero
  const double total = scatter.trace();
  pca.explained_variance = values / static_cast<double>(std::max<Index>(n_rows - 1, 1));
  pca.explained_ratio = total > 0
                            ? VectorXd(values / total)
                            : VectorXd::Constant(n_components, std::numeric_limits<double>::quiet_NaN());
  return pca;
}

RowMatrixD project(const Pca& pca, const MatrixView& rows) {
  if (rows.cols() != pca.mean.size())
    throw InvalidInput(
        fmt::format("projection: rows of {} columns onto a basis of {}", rows.cols(), pca.mean.size()));
  // Row by row, by the axes' few columns: faster than the product of whole matrices, and without a float64
  // copy of the rows.
  const MatrixXd axes = pca.axes;
  RowMatrixD coordinates(rows.rows(), axes.cols());
  VectorXd centred(rows.cols());
  for (Index row = 0; row < rows.rows(); ++row) {
    centred = rows.row(row).transpose().cast<double>() - pca.mean;
    for (Index axis = 0; axis < axes.cols(); ++axis) coordinates(row, axis) = centred.dot(axes.col(axis));
  }
  return coordinates;
}

namespace {

constexpr Index kDenseColumns = 48;  // below, a dense solver is done before the iterations are
constexpr Index kKrylovVectors = 20;
constexpr Index kMaxRestarts = 100;
constexpr double kResidualLimit = 1e-10;  // of the trace; an eigenvalue is off by no more

Eigenpairs dense_eigenpairs(const MatrixXd& matrix, Index n_pairs) {
  const auto [values, vectors] = ascending_eigenpairs(matrix);
  return {values.tail(n_pairs).reverse(), vectors.rightCols(n_pairs).rowwise().reverse()};
}

// Whether all eigenvalues but those found are below the least of these, up to the residual's limit: whether
// A without the pairs, taken off a multiple of the identity that is that large, is positive definite.
bool none_is_missed(const MatrixXd& matrix, const Eigenpairs& pairs) {
  MatrixXd rest = pairs.vectors * pairs.values.asDiagonal() * pairs.vectors.transpose() - matrix;
  rest.diagonal().array() += pairs.values.minCoeff() + kResidualLimit * matrix.trace();
  return is_positive_definite(rest);
}

std::optional<Eigenpairs> iterated_eigenpairs(const MatrixXd& matrix, Index n_pairs) {
  Spectra::DenseSymMatProd<double> product(matrix);
  const Index n_vectors = std::max(2 * n_pairs + 1, kKrylovVectors);  // fewer than rows: leading_eigenpairs
  Spectra::SymEigsSolver<Spectra::DenseSymMatProd<double>> solver(product, n_pairs, n_vectors);
  solver.init();
  // Beyond the rank nothing but rounding is iterated, and what Spectra solves inside may not converge.
  try {
    solver.compute(Spectra::SortRule::LargestAlge, kMaxRestarts, 1e-14);
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
  if (solver.info() != Spectra::CompInfo::Successful) return std::nullopt;
  Eigenpairs pairs{solver.eigenvalues(), solver.eigenvectors()};
  if (relative_residual(matrix, pairs) > kResidualLimit || !none_is_missed(matrix, pairs))
    return std::nullopt;
  return pairs;
}

}  // namespace

double relative_residual(const MatrixXd& matrix, const Eigenpairs& pairs) {
  const double trace = matrix.trace();
  if (trace == 0) return 0;
  const MatrixXd residual = matrix * pairs.vectors - pairs.vectors * pairs.values.asDiagonal();
  return residual.colwise().norm().maxCoeff() / trace;
}

Eigenpairs leading_eigenpairs(const MatrixXd& matrix, Index n_pairs) {
  const Index n = matrix.rows();
  if (n > kDenseColumns && 8 * n_pairs < n && matrix.trace() > 0)
    if (auto pairs = iterated_eigenpairs(matrix, n_pairs)) return *std::move(pairs);
  return dense_eigenpairs(matrix, n_pairs);
}

}  // namespace keyscope::analysis
