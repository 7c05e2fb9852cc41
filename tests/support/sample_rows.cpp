#include "tests/support/sample_rows.hpp"

#include <cmath>

#include <nlohmann/json.hpp>

namespace keyscope {

using Eigen::Index;

std::vector<double> sample_uniform(std::uint64_t seed, std::size_t n) {
  std::vector<double> numbers;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    numbers.push_back(static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53);
  }
  return numbers;
}

RowMatrixF sample_rows(std::uint64_t seed, Index n_rows, Index n_cols, double offset, Index halve_every) {
  const auto numbers = sample_uniform(seed, n_rows * n_cols);
  RowMatrixF rows(n_rows, n_cols);
  for (Index i = 0; i < rows.size(); ++i) {
    const double scale =
        halve_every == 0 ? 1 : std::ldexp(1.0, static_cast<int>(-(i % n_cols / halve_every)));
    rows.data()[i] = static_cast<float>((numbers[i] - 0.5 + offset) * scale);
  }
  return rows;
}

RowMatrixF sample_low_rank_rows(std::uint64_t seed, Index n_rows, Index n_cols, Index rank) {
  const auto left = sample_uniform(seed, n_rows * rank);
  const auto right = sample_uniform(seed + 1, rank * n_cols);
  RowMatrixD a(n_rows, rank);
  RowMatrixD b(rank, n_cols);
  for (Index i = 0; i < a.size(); ++i) a.data()[i] = std::floor(left[i] * 7) - 3;
  for (Index i = 0; i < b.size(); ++i) b.data()[i] = (std::floor(right[i] * 1024) - 512) * 0x1p-10;
  return (a * b).cast<float>();
}

RowMatrixF sample_rows(const nlohmann::json& golden) {
  const auto seed = golden["seed"].get<std::uint64_t>();
  const auto n = golden["rows"].get<Index>(), d = golden["cols"].get<Index>();
  const auto rank = golden["low_rank"].get<Index>();
  if (rank > 0) return sample_low_rank_rows(seed, n, d, rank);
  return sample_rows(seed, n, d, golden["offset"].get<double>(), golden["halve_every"].get<Index>());
}

}  // namespace keyscope
