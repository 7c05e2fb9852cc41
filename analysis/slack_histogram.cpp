#include "analysis/slack_histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "analysis/errors.hpp"

namespace keyscope::analysis {
namespace {

// A double's exponent and the leading four bits of its mantissa, read as one number, grow with its magnitude
// by one per sixteenth of an octave.
constexpr int kDroppedBits = 48;
constexpr std::int64_t code_of(double magnitude) {
  return static_cast<std::int64_t>(std::bit_cast<std::uint64_t>(magnitude) >> kDroppedBits);
}

constexpr std::int64_t kSmallest = code_of(0x1p-40);
constexpr std::int64_t kBins = code_of(0x1p40) - kSmallest;  // of each sign
constexpr std::int64_t kNotCounted = 2 * kBins + 1;          // a place for +inf: no branch on what is random

std::int64_t bin_of(double slack) {
  const std::int64_t magnitude = std::clamp<std::int64_t>(code_of(std::abs(slack)) - kSmallest + 1, 0, kBins);
  return kBins + (slack < 0 ? -magnitude : magnitude);
}

double middle_of(std::int64_t bin) {
  const std::int64_t magnitude = std::abs(bin - kBins);
  if (magnitude == 0) return 0;
  const auto edge = [](std::int64_t code) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(code) << kDroppedBits);
  };
  const std::int64_t code = kSmallest + magnitude - 1;
  const double middle = (edge(code) + edge(code + 1)) / 2;
  return bin < kBins ? -middle : middle;
}

}  // namespace

SlackHistogram::SlackHistogram()
    : counts_(static_cast<std::size_t>(kNotCounted + 1)),
      min_(std::numeric_limits<double>::infinity()),
      max_(-std::numeric_limits<double>::infinity()) {}

void SlackHistogram::add(const Eigen::ArrayXd& slacks) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::int64_t& not_counted = counts_.back();
  const std::int64_t n_before = not_counted;
  for (const double slack : slacks) {
    const bool counted = slack != kInfinity;
    ++counts_[static_cast<std::size_t>(counted ? bin_of(slack) : kNotCounted)];
    min_ = std::min(min_, slack);
    max_ = std::max(max_, counted ? slack : -kInfinity);
  }
  count_ += slacks.size() - (not_counted - n_before);
}

double SlackHistogram::quantile(double p) const {
  if (!(p >= 0 && p <= 1))
    throw InvalidInput(fmt::format("slack histogram: a probability of {}; expected 0 to 1", p));
  if (count_ == 0) return std::numeric_limits<double>::quiet_NaN();
  const auto rank = static_cast<std::int64_t>(std::ceil(p * static_cast<double>(count_)));
  if (rank <= 1) return min_;
  if (rank >= count_) return max_;
  std::int64_t n_below = 0;
  std::int64_t bin = 0;
  while ((n_below += counts_[static_cast<std::size_t>(bin)]) < rank) ++bin;
  return std::clamp(middle_of(bin), min_, max_);
}

}  // namespace keyscope::analysis
