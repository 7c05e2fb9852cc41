#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace keyscope::benchmarks {

// Ratios of times are taken round by round: every round times everything once, in an order that turns about,
// so that what else the machine does meets both sides of a ratio alike. Their median stands with its exact
// interval (analysis::median_interval), or it cannot be told, by these rules:

inline constexpr double kRatioConfidence = 0.95;
// Fewer rounds have no interval of that confidence: the range of five covers the median in 93.75 %.
inline constexpr std::int64_t kLeastRounds = 6;
// Of the load average over the machine's processors: more than half a process waited for one all the time.
inline constexpr double kMostWaiting = 0.5;
// The longest of one side's times over its shortest. One and the same work that takes so much longer was not
// measured but disturbed.
inline constexpr double kMostSpread = 4;
// The interval's high end over its low one.
inline constexpr double kMostWidth = 2;

// How busy the whole machine was, our own work included.
struct MachineLoad {
  std::optional<double> most;  // the highest load average of the last minute that was seen; empty: not known
  int processors = 1;          // of the machine, all of which share the load
};

// The load average of the last minute; empty where the system does not say.
std::optional<double> load_average();

// Keeps the highest load average of those seen.
class LoadWatch {
 public:
  LoadWatch();
  void look();  // once before the first round, and after each
  const MachineLoad& seen() const { return load_; }

 private:
  MachineLoad load_;
};

// What one thing took in each round, and the load over them; without a load where that cannot lengthen them,
// as processor time.
struct RoundTimes {
  std::vector<double> times;  // (rounds), in any one unit, above 0
  MachineLoad load = {};
};

struct PairedRatio {
  double ratio = 0;  // median of the rounds' ratios; NaN without rounds
  double low = 0;    // its interval; NaN with fewer than kLeastRounds
  double high = 0;
  std::int64_t n_rounds = 0;
  std::string doubt = {};  // why it cannot be told: "5 rounds, of which at least 6 are needed"; empty: it can

  bool told() const { return doubt.empty(); }
  // Whether the side above the line certainly took less time.
  bool is_faster() const { return told() && high < 1; }
};

// How much longer one thing took than another.
//   throws InvalidInput where they have not the same rounds, or a time is not above 0
PairedRatio paired_ratio(const RoundTimes& times, const RoundTimes& baseline);

// Of the baseline itself: 1, which was not measured and is always told.
PairedRatio unit_ratio(std::int64_t n_rounds);

// "0.93 [0.91, 0.95]", "cannot be told", and "1" of the baseline itself.
std::string ratio_text(const PairedRatio& ratio);
// In per cent, as a share or as what is added: "31.5 [30.9, 32.2]", "−2.1 [−3.0, −1.4]", "cannot be told".
std::string percent_text(const PairedRatio& ratio);
std::string excess_text(const PairedRatio& ratio);

// Every reason why one of them cannot be told, once.
std::vector<std::string> doubts_of(std::span<const PairedRatio> ratios);

// {"ratio", "low", "high", "rounds", "told", "doubt"}
nlohmann::ordered_json ratio_json(const PairedRatio& ratio);
// The rules and the load: {"confidence", "least_rounds", "most_spread", "most_width", "most_load", "load",
// "processors"}
nlohmann::ordered_json ratio_rules_json(const MachineLoad& load);
// "medians over rounds with their exact 95 % interval; …", naming every rule.
std::string ratio_rules_text();

// In which order a round goes through n things: every second round backwards through the order of the one
// before it, which is drawn anew, so that of any two each comes first equally often.
std::vector<std::size_t> round_order(std::size_t n, std::int64_t round, std::uint64_t seed);

}  // namespace keyscope::benchmarks
