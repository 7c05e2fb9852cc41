#include "analysis/policies/layer_budgets.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

// Floors and, where they leave something of `total`, one more for the largest remainders, of equal ones the
// first; what would have none has one of the largest.
template <typename T>
std::vector<std::int64_t> rounded(std::vector<std::int64_t> dealt, const std::vector<T>& remainders,
                                  std::int64_t total) {
  std::vector<std::size_t> order(dealt.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
  const std::int64_t left = total - std::reduce(dealt.begin(), dealt.end());
  for (std::int64_t i = 0; i < left; ++i) ++dealt[order[i % std::ssize(order)]];
  for (auto none = std::ranges::find(dealt, 0); none != dealt.end(); none = std::ranges::find(dealt, 0)) {
    --*std::ranges::max_element(dealt);
    ++*none;
  }
  return dealt;
}

}  // namespace

// In units of 1/(20 (n_layers - 1)) rows, which are whole numbers.
std::vector<std::int64_t> pyramid_budgets(std::int64_t n_layers, std::int64_t budget, std::int64_t w,
                                          std::int64_t n_prompt) {
  constexpr std::int64_t kSteepness = 20;  // PyramidKV's beta
  w = std::min(w, budget);
  if (n_layers == 1) return {budget};
  const std::int64_t free = budget - w, steps = n_layers - 1, unit = kSteepness * steps;
  const std::int64_t first = std::min((2 * kSteepness - 1) * free, kSteepness * std::max(free, n_prompt - w));
  const std::int64_t last = 2 * kSteepness * free - first;
  std::vector<std::int64_t> floors, remainders;
  for (std::int64_t layer = 0; layer < n_layers; ++layer) {
    const std::int64_t exact = unit * w + first * steps - layer * (first - last);
    floors.push_back(exact / unit);
    remainders.push_back(exact % unit);
  }
  return rounded(std::move(floors), remainders, n_layers * budget);
}

std::vector<std::int64_t> dealt_out(std::span<const double> weights, std::int64_t budget) {
  const std::int64_t total = std::ssize(weights) * budget;
  // All by one power of two, which rounds nothing: of an infinite sum nobody would have a share.
  const int exponent = std::ilogb(std::ranges::max(weights));
  const auto scaled = [&](double weight) { return std::scalbn(weight, -exponent); };
  const double sum = std::transform_reduce(weights.begin(), weights.end(), 0.0, std::plus(), scaled);
  std::vector<std::int64_t> floors;
  std::vector<double> remainders;
  for (const double weight : weights) {
    const double exact = scaled(weight) / sum * static_cast<double>(total);
    floors.push_back(static_cast<std::int64_t>(std::floor(exact + 1e-9)));
    remainders.push_back(exact - static_cast<double>(floors.back()));
  }
  return rounded(std::move(floors), remainders, total);
}

void LayerPreference::add(const RowMatrixD& weights) {
  const Eigen::RowVectorXd mean = weights.colwise().mean();
  for (const double weight : mean)
    if (weight > 0) dispersion -= weight * std::log(weight);
  shift += (weights.rowwise() - mean).squaredNorm() / static_cast<double>(weights.rows());
}

void LayerPreference::add(const LayerPreference& other) {
  dispersion += other.dispersion;
  shift += other.shift;
}

double LayerPreference::log_share(const CakeTemperatures& temperatures) const {
  return std::log(std::max(0.0, dispersion)) / temperatures.spatial + std::log(shift) / temperatures.temporal;
}

namespace {

// Of the open ones the shares, which add up to 1: each less the largest, so that none is too large a number.
std::vector<double> open_shares(std::span<const double> log_shares, const std::vector<bool>& full) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::size_t layer = 0; layer < full.size(); ++layer)
    if (!full[layer]) largest = std::max(largest, log_shares[layer]);
  std::vector<double> shares(full.size());
  for (std::size_t layer = 0; layer < full.size(); ++layer) {
    if (!full[layer]) shares[layer] = std::isinf(largest) ? 1 : std::exp(log_shares[layer] - largest);
    sum += shares[layer];
  }
  for (double& share : shares) share /= sum;
  return shares;
}

std::vector<std::int64_t> rounded_up(std::span<const std::int64_t> rows, std::int64_t unit) {
  std::vector<std::int64_t> pages;
  for (const std::int64_t n : rows) pages.push_back((n + unit - 1) / unit);
  return pages;
}

}  // namespace

// Layers that are given more than they hold leave what they do not take to the others, until none is.
std::vector<std::int64_t> cake_budgets(std::span<const double> log_shares, std::int64_t budget,
                                       std::int64_t w, std::span<const std::int64_t> n_rows,
                                       std::int64_t unit) {
  const std::size_t n_layers = log_shares.size();
  for (std::size_t layer = 0; layer < n_layers; ++layer)
    if (!(log_shares[layer] < std::numeric_limits<double>::infinity()))
      throw InvalidInput(
          fmt::format("split=cake: what layer {} prefers is {}; keys and attention weights must be finite",
                      layer, std::exp(log_shares[layer])));
  const std::int64_t each = std::max<std::int64_t>(1, budget / unit);
  const std::vector<std::int64_t> held = rounded_up(n_rows, unit);
  const auto base = static_cast<double>(std::clamp<std::int64_t>((w + unit - 1) / unit, 1, each));
  const std::int64_t total = std::min(std::ssize(log_shares) * each, std::reduce(held.begin(), held.end()));
  std::vector<double> wanted(n_layers);
  std::vector<bool> full(n_layers);
  for (bool again = true; again;) {
    again = false;
    double left = static_cast<double>(total);
    for (std::size_t layer = 0; layer < n_layers; ++layer) left -= full[layer] ? wanted[layer] : base;
    const std::vector<double> shares = open_shares(log_shares, full);
    for (std::size_t layer = 0; layer < n_layers; ++layer)
      if (!full[layer]) wanted[layer] = base + left * shares[layer];
    for (std::size_t layer = 0; layer < n_layers; ++layer) {
      const auto most = static_cast<double>(held[layer]);
      if (full[layer] || wanted[layer] <= most) continue;
      wanted[layer] = most;
      full[layer] = again = true;
    }
  }
  std::vector<std::int64_t> floors;
  std::vector<double> remainders;
  for (std::size_t layer = 0; layer < n_layers; ++layer) {
    floors.push_back(static_cast<std::int64_t>(std::floor(wanted[layer] + 1e-9)));
    remainders.push_back(full[layer] ? -1 : wanted[layer] - static_cast<double>(floors.back()));
  }
  std::vector<std::int64_t> budgets = rounded(std::move(floors), remainders, total);
  for (std::int64_t& rows : budgets) rows *= unit;
  return budgets;
}

}  // namespace keyscope::analysis
