#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "analysis/splitmix.hpp"
#include "base/errors.hpp"
#include "capture/inference/completion.hpp"

namespace keyscope::capture {

namespace {

// Equal logits in order of id.
std::int32_t likeliest(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::vector<std::int32_t> ranked(std::span<const float> logits) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::sort(ids, [&](std::int32_t a, std::int32_t b) {
    const float x = logits[a], y = logits[b];
    return x != y ? x > y : a < b;
  });
  return ids;
}

double uniform(std::uint64_t seed, std::int64_t draw) {
  const auto step = static_cast<std::uint64_t>(draw) * analysis::kSplitmixStep;
  return analysis::unit_interval(analysis::splitmix(seed + step));
}

}  // namespace

void check_sampling(const Sampling& sampling) {
  if (!std::isfinite(sampling.temperature) || sampling.temperature < 0)
    throw UsageError(
        fmt::format("temperature {}: expected 0 (the likeliest token) or more", sampling.temperature));
  if (!(sampling.top_p > 0 && sampling.top_p <= 1))
    throw UsageError(fmt::format("top-p {}: expected more than 0, at most 1", sampling.top_p));
}

std::int32_t choose_token(std::span<const float> logits, const Sampling& sampling, std::int64_t draw) {
  if (sampling.temperature == 0) return likeliest(logits);
  const std::vector<std::int32_t> ids = ranked(logits);
  const double largest = logits[ids.front()];
  std::vector<double> cumulated;
  double sum = 0;
  for (const std::int32_t id : ids) {
    const double logit = logits[id];
    sum += std::exp((logit - largest) / sampling.temperature);
    cumulated.push_back(sum);
  }
  const auto nucleus = std::ranges::lower_bound(cumulated, sampling.top_p * sum);
  const std::size_t n = std::min(ids.size(), static_cast<std::size_t>(nucleus - cumulated.begin()) + 1);
  const double drawn = uniform(sampling.seed, draw) * cumulated[n - 1];
  const auto chosen =
      std::ranges::upper_bound(cumulated.begin(), cumulated.begin() + static_cast<std::ptrdiff_t>(n), drawn);
  return ids[std::min(n - 1, static_cast<std::size_t>(chosen - cumulated.begin()))];
}

}  // namespace keyscope::capture
