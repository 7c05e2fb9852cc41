#include "app/benchmarks/paired_ratio.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "analysis/statistics.hpp"
#include "base/errors.hpp"
#include "base/interval_text.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace keyscope::benchmarks {

namespace {

constexpr const char* kUntold = "cannot be told";

double most_load(int processors) { return processors + kMostWaiting; }

// "3.02 with 2 processors", of the busier of two; empty where neither was too busy.
std::string load_doubt(const MachineLoad& load) {
  if (!load.most || *load.most <= most_load(load.processors)) return "";
  return fmt::format("the load average was {:.2f} with {}", *load.most,
                     counted(load.processors, "processor"));
}

double spread_factor(std::span<const double> times) {
  const auto [least, most] = std::ranges::minmax(times);
  return most / least;
}

std::string spread_doubt(std::span<const double> times, std::span<const double> baseline) {
  const double factor = std::max(spread_factor(times), spread_factor(baseline));
  if (factor <= kMostSpread) return "";
  return fmt::format("times of one and the same work differ by a factor of {:.1f}, more than {:g}", factor,
                     kMostSpread);
}

std::string width_doubt(const PairedRatio& ratio) {
  if (ratio.high / ratio.low <= kMostWidth) return "";
  return fmt::format("its interval [{:.2g}, {:.2g}] spans a factor of more than {:g}", ratio.low, ratio.high,
                     kMostWidth);
}

std::string doubt_about(const PairedRatio& ratio, const RoundTimes& times, const RoundTimes& baseline) {
  if (ratio.n_rounds < kLeastRounds)
    return fmt::format("{}, of which at least {} are needed", counted(ratio.n_rounds, "round"), kLeastRounds);
  for (const MachineLoad& load : {times.load, baseline.load})
    if (std::string doubt = load_doubt(load); !doubt.empty()) return doubt;
  std::string doubt = spread_doubt(times.times, baseline.times);
  return doubt.empty() ? width_doubt(ratio) : doubt;
}

// (scale · (ratio - from)) with its interval.
std::string scaled_text(const PairedRatio& ratio, double scale, double from, int decimals) {
  if (!ratio.told()) return kUntold;
  const auto at = [&](double value) { return scale * (value - from); };
  return mean_text(at(ratio.ratio), at(ratio.low), at(ratio.high), decimals);
}

}  // namespace

std::optional<double> load_average() {
  std::array<double, 1> load{};
  return getloadavg(load.data(), 1) == 1 ? std::optional(load[0]) : std::nullopt;
}

// Not those that this process may use: the load is of the whole machine too.
LoadWatch::LoadWatch() : load_{{}, std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)))} {}

void LoadWatch::look() {
  if (const auto now = load_average()) load_.most = std::max(*now, load_.most.value_or(*now));
}

PairedRatio paired_ratio(const RoundTimes& times, const RoundTimes& baseline) {
  if (times.times.size() != baseline.times.size())
    throw InvalidInput(fmt::format("paired ratio: {} against {}; expected the same rounds",
                                   counted(std::ssize(times.times), "time"), baseline.times.size()));
  std::vector<double> ratios;
  for (std::size_t i = 0; i < times.times.size(); ++i) {
    if (!(times.times[i] > 0) || !(baseline.times[i] > 0))
      throw InvalidInput(fmt::format("paired ratio: round {} took {} against {}; expected times above 0", i,
                                     times.times[i], baseline.times[i]));
    ratios.push_back(times.times[i] / baseline.times[i]);
  }
  const auto found = analysis::median_interval(ratios, kRatioConfidence);
  PairedRatio ratio{found.median, found.low, found.high, found.n_samples};
  ratio.doubt = doubt_about(ratio, times, baseline);
  return ratio;
}

PairedRatio unit_ratio(std::int64_t n_rounds) { return {1, 1, 1, n_rounds}; }

std::string ratio_text(const PairedRatio& ratio) {
  const bool unit = ratio.told() && ratio.low == 1 && ratio.high == 1;
  return unit ? "1" : scaled_text(ratio, 1, 0, ratio.ratio < 0.1 ? 3 : 2);
}

std::string percent_text(const PairedRatio& ratio) { return scaled_text(ratio, 100, 0, 1); }

std::string excess_text(const PairedRatio& ratio) { return scaled_text(ratio, 100, 1, 1); }

std::vector<std::string> doubts_of(std::span<const PairedRatio> ratios) {
  std::vector<std::string> doubts;
  for (const PairedRatio& ratio : ratios)
    if (!ratio.told() && std::ranges::find(doubts, ratio.doubt) == doubts.end())
      doubts.push_back(ratio.doubt);
  return doubts;
}

nlohmann::ordered_json ratio_json(const PairedRatio& ratio) {
  nlohmann::ordered_json json{
      {"ratio", json_number(ratio.ratio)}, {"low", json_number(ratio.low)}, {"high", json_number(ratio.high)},
      {"rounds", ratio.n_rounds},          {"told", ratio.told()},          {"doubt", nullptr}};
  if (!ratio.told()) json["doubt"] = ratio.doubt;
  return json;
}

nlohmann::ordered_json ratio_rules_json(const MachineLoad& load) {
  return {{"confidence", kRatioConfidence},
          {"least_rounds", kLeastRounds},
          {"most_spread", kMostSpread},
          {"most_width", kMostWidth},
          {"most_load", most_load(load.processors)},
          {"load", json_number(load.most)},
          {"processors", load.processors}};
}

std::string ratio_rules_text() {
  return fmt::format(
      "ratios of times are medians over the rounds' own ratios with their exact {:.0f} % interval; they "
      "cannot be told from fewer than {} rounds, with a load average of more than {:g} above the machine's "
      "processors, where one side's times differ by a factor of more than {:g}, or where the interval spans "
      "one of more than {:g}",
      100 * kRatioConfidence, kLeastRounds, kMostWaiting, kMostSpread, kMostWidth);
}

// By hand, since what the library's shuffle draws differs from one to another.
std::vector<std::size_t> round_order(std::size_t n, std::int64_t round, std::uint64_t seed) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 draw(seed + static_cast<std::uint64_t>(round / 2));
  for (std::size_t left = n; left > 1; --left) std::swap(order[left - 1], order[draw() % left]);
  if (round % 2 == 1) std::ranges::reverse(order);
  return order;
}

}  // namespace keyscope::benchmarks
