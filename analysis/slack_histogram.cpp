#include "analysis/slack_histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "analysis/per_processor.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {

namespace {

using Eigen::Index;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A double's exponent and the leading four bits of its mantissa, read as one number, grow with its magnitude
// by one per sixteenth of an octave.
constexpr int kDroppedBits = 48;
constexpr std::int64_t code_of(double magnitude) {
  return static_cast<std::int64_t>(std::bit_cast<std::uint64_t>(magnitude) >> kDroppedBits);
}

constexpr std::int64_t kSmallest = code_of(0x1p-40);
constexpr std::int64_t kBins = code_of(0x1p40) - kSmallest;  // of each sign

// A table a lane, since slacks that follow one another often share a bin and would wait for its counter; the
// last place of each is for +inf: no branch on what is random.
constexpr std::int64_t kNotCounted = 2 * kBins + 1;
constexpr std::int64_t kPlaces = kNotCounted + 1;
constexpr FourIntegers kTables = FourIntegers{0, 1, 2, 3} * kPlaces;

// Counts four slacks, and widens `min` and `max` to hold them.
[[gnu::always_inline]] inline void count_slacks(const double* slacks, std::int64_t* counts, FourDoubles& min,
                                                FourDoubles& max) {
  FourDoubles x;
  FourIntegers bits;
  std::memcpy(&x, slacks, sizeof x);
  std::memcpy(&bits, slacks, sizeof bits);
  FourIntegers magnitude =
      ((bits & std::numeric_limits<std::int64_t>::max()) >> kDroppedBits) - (kSmallest - 1);
  magnitude = magnitude < 0 ? FourIntegers{} : magnitude;
  magnitude = magnitude > kBins ? FourIntegers{} + kBins : magnitude;
  FourIntegers bins = (x < 0 ? -magnitude : magnitude) + kBins;
  bins = (x == kInfinity ? FourIntegers{} + kNotCounted : bins) + kTables;
  min = x < min ? x : min;
  const FourDoubles counted = x == kInfinity ? -x : x;
  max = counted > max ? counted : max;
  for (Eigen::Index lane = 0; lane < kFour; ++lane) ++counts[bins[lane]];
}

KEYSCOPE_PER_PROCESSOR
void count_all_slacks(const double* slacks, Eigen::Index n, std::int64_t* counts, double& least,
                      double& largest) {
  FourDoubles min = FourDoubles{} + least;
  FourDoubles max = FourDoubles{} + largest;
  Eigen::Index i = 0;
  for (; i + kFour <= n; i += kFour) count_slacks(slacks + i, counts, min, max);
  double rest[kFour];
  std::fill(rest, rest + kFour, kInfinity);
  std::copy(slacks + i, slacks + n, rest);
  count_slacks(rest, counts, min, max);
  for (Eigen::Index lane = 0; lane < kFour; ++lane) {
    least = std::min(least, min[lane]);
    largest = std::max(largest, max[lane]);
  }
}

}  // namespace

SlackCounter::SlackCounter() : counts_(kFour * kPlaces), least_(kInfinity), largest_(-kInfinity) {}

void SlackCounter::add(const double* slacks, Index n) {
  count_all_slacks(slacks, n, counts_.data(), least_, largest_);
}

SlackHistogram SlackCounter::histogram() const {
  SlackHistogram histogram;
  for (std::int64_t bin = 0; bin < kNotCounted; ++bin)
    for (Index lane = 0; lane < kFour; ++lane) histogram.counts_[bin] += counts_[lane * kPlaces + bin];
  histogram.count_ = std::reduce(histogram.counts_.begin(), histogram.counts_.end());
  histogram.min_ = least_;
  histogram.max_ = largest_;
  return histogram;
}

namespace {

// The bin of one slack, as count_slacks finds it for four.
std::int64_t bin_of(double slack) {
  const std::int64_t magnitude =
      std::clamp<std::int64_t>(code_of(std::abs(slack)) - (kSmallest - 1), 0, kBins);
  return kBins + (slack < 0 ? -magnitude : magnitude);
}

// The smallest magnitude of a bin, counted from 1; that of bin 0, which is zero to 2^-40, is its end.
double magnitude_of(std::int64_t bin) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(kSmallest + bin - 1) << kDroppedBits);
}

double middle_of(std::int64_t bin) {
  const std::int64_t magnitude = std::abs(bin - kBins);
  if (magnitude == 0) return 0;
  const double middle = (magnitude_of(magnitude) + magnitude_of(magnitude + 1)) / 2;
  return bin < kBins ? -middle : middle;
}

// Where a bin begins, the bin before it ending there.
double lower_edge_of(std::int64_t bin) {
  return bin > kBins ? magnitude_of(bin - kBins) : -magnitude_of(kBins - bin + 1);
}

}  // namespace

SlackHistogram::SlackHistogram() : counts_(kNotCounted), min_(kInfinity), max_(-kInfinity) {}

void SlackHistogram::add(const Eigen::ArrayXd& slacks) {
  SlackCounter counter;
  counter.add(slacks.data(), slacks.size());
  add(counter.histogram());
}

void SlackHistogram::add(const SlackHistogram& other) {
  for (std::size_t bin = 0; bin < counts_.size(); ++bin) counts_[bin] += other.counts_[bin];
  count_ += other.count_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

double SlackHistogram::count_below(double slack) const {
  if (!(slack > min_)) return 0;
  if (slack > max_) return static_cast<double>(count_);
  const std::int64_t own = bin_of(slack);
  std::int64_t n_below = 0;
  for (std::int64_t bin = 0; bin < own; ++bin) n_below += counts_[bin];
  const double share =
      std::clamp((slack - lower_edge_of(own)) / (lower_edge_of(own + 1) - lower_edge_of(own)), 0.0, 1.0);
  return static_cast<double>(n_below) + share * static_cast<double>(counts_[own]);
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
  while ((n_below += counts_[bin]) < rank) ++bin;
  return std::clamp(middle_of(bin), min_, max_);
}

}  // namespace keyscope::analysis
