#include "analysis/leading_eigenpairs.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <Spectra/MatOp/DenseSymMatProd.h>
#include <Spectra/SymEigsSolver.h>

namespace keyscope::analysis {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;

constexpr Index kDenseColumns = 48;  // below, a dense solver is done before the iterations are
constexpr Index kKrylovVectors = 20;
constexpr Index kMaxRestarts = 100;
constexpr double kResidualLimit = 1e-10;  // of the trace; an eigenvalue is off by no more

Eigenpairs dense_eigenpairs(const MatrixXd& matrix, Index n_pairs) {
  const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(matrix);
  // Ascending; a numerically failed solve of a finite matrix shows in the residual.
  return {solver.eigenvalues().tail(n_pairs).reverse(),
          solver.eigenvectors().rightCols(n_pairs).rowwise().reverse()};
}

// Whether all eigenvalues but those found are below the least of these, up to the residual's limit: whether
// A without the pairs, taken off a multiple of the identity that is that large, is positive definite.
bool none_is_missed(const MatrixXd& matrix, const Eigenpairs& pairs) {
  MatrixXd rest = pairs.vectors * pairs.values.asDiagonal() * pairs.vectors.transpose() - matrix;
  rest.diagonal().array() += pairs.values.minCoeff() + kResidualLimit * matrix.trace();
  return Eigen::LLT<MatrixXd>(rest).info() == Eigen::Success;
}

std::optional<Eigenpairs> iterated_eigenpairs(const MatrixXd& matrix, Index n_pairs) {
  Spectra::DenseSymMatProd<double> product(matrix);
  const Index n_vectors = std::min(matrix.rows(), std::max(2 * n_pairs + 1, kKrylovVectors));
  Spectra::SymEigsSolver<Spectra::DenseSymMatProd<double>> solver(product, n_pairs, n_vectors);
  solver.init();
  solver.compute(Spectra::SortRule::LargestAlge, kMaxRestarts, 1e-14);
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
