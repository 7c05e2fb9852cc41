#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "app/figures/figure.hpp"
#include "app/measures/head_measures.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

// What must have been recorded for a measure to exist.
enum class MeasureNeed { kKeys, kQueries, kAttention, kFullCache, kFullCacheValues, kReference, kSinks };

// A measure of a KV head that a map of heads can be coloured by; `id` is its name in `analyze --json` and
// after `figure head-map --measure`.
struct HeadMeasure {
  const char* id;
  const char* label;
  const char* unit;                                      // empty: none
  const char* group;                                     // what it is about: "Score and attention"
  const char* meaning;                                   // one line for a tooltip
  std::optional<double> measures::HeadMeasures::*value;  // null: of two runs, see head_value
  ColourMap colour_map;                                  // diverging for what has a sign
  int decimals;
  MeasureNeed need;

  bool of_two_runs() const { return value == nullptr; }
  // Whether it speaks of the hypothesis: then it is taken as measures::hypothesis_run says, whichever run is
  // looked at, and has no difference between two runs.
  bool of_hypothesis() const;
};

// All of them, those that are asked for most first.
std::span<const HeadMeasure> head_measures();

//   throws UsageError on an unknown id, saying which there are
const HeadMeasure& find_head_measure(std::string_view id);

// The measure of a head; beside a reference, the difference from the same head of that run. A measure of two
// runs, the overlap |A ∩ B| / |A ∪ B| of the retained sets, exists beside a reference only.
//   reference: null: none
std::optional<double> head_value(const HeadMeasure& measure, const measures::HeadMeasures& head,
                                 const measures::HeadMeasures* reference);

// What it comes from, of one run or of both.
measures::Part part_of_measure(const HeadMeasure& measure);

// Why a recorded head has no value: "its keys were not recorded".
std::string missing_reason(const recording::RecordingInfo& info, const HeadMeasure& measure, int kv_head);

// How a map is coloured, with the name of its values.
struct MeasureScale {
  double low = 0, high = 1;
  ColourMap colour_map = ColourMap::kViridis;
  std::string name;  // "Spearman ρ, keydiff − sink"
};

// From the least to the largest value; a diverging map is centred at 0, so that its middle colour always
// means "none", and so is every difference. Values that are missing or not finite are left out.
//   run, reference: names of the runs; reference empty: none
MeasureScale measure_scale(const HeadMeasure& measure, std::span<const std::optional<double>> values,
                           std::string_view run, std::string_view reference);

// "keydiff − sink", "keydiff and sink" for what is of two runs, "keydiff" without a reference.
std::string compared_runs(const HeadMeasure& measure, std::string_view run, std::string_view reference);

}  // namespace keyscope::figures
