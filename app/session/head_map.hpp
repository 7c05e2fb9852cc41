#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/figures/head_measure.hpp"
#include "app/measures/head_measures.hpp"
#include "app/session/head_points.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::session {

// A measured head, what of it is known, and how long its run was then.
struct MeasuredHead {
  measures::HeadMeasures measures;
  std::int64_t n_tokens = 0;
  measures::Parts parts = measures::Parts::all();
};

// A head, where what one of its measures comes from is known; null: it is not measured yet.
const MeasuredHead* find_measured(const std::map<HeadKey, MeasuredHead>& measured, const HeadKey& head,
                                  const figures::HeadMeasure& measure);

// What the map of heads shows.
struct MapChoice {
  std::size_t measure = 0;  // index into measure_choices()
  int reference = -1;       // the run whose values are taken off; -1: none
  bool operator==(const MapChoice&) const = default;
};

// The map as it is made of what is measured so far: the values of `figure head-map`.
struct HeadMap {
  struct Cell {
    std::optional<double> value;
    std::string missing;  // why there is none: "not measured yet"
  };
  MapChoice choice;
  std::string title;    // "keydiff − sink", "of none"; empty where it is the selected run's own
  int run = 0;          // whose values these are
  bool biased = false;  // they are of a run that evicts, and speak of the model: measures::kBiasedByEviction
  std::vector<Cell> cells;  // recorded layers with keys x KV heads, row by row
  figures::MeasureScale scale;
  int n_measured = 0;
  // Tokens that values are of, where the prompt is read further by now; 0: it is not.
  std::int64_t of_first = 0;

  // Null where the layer has no keys, or was not recorded.
  const Cell* cell(const recording::RecordingInfo& info, int layer, int kv_head) const;
};

// The choice as it is in one run: no run is compared with itself, and a measure of two runs takes the
// first other run that evicts (else the first other one) where none was chosen.
MapChoice effective_choice(const recording::RecordingInfo& info, const MapChoice& choice, int run);

// The run whose values the map shows of what is chosen: `run`, or what measures::hypothesis_run has for it.
measures::HypothesisRun run_of_map(const recording::RecordingInfo& info, const MapChoice& choice, int run);

//   choice: from effective_choice; run: the selected one
HeadMap make_head_map(const recording::RecordingInfo& info, const std::map<HeadKey, MeasuredHead>& measured,
                      const MapChoice& choice, int run);

}  // namespace keyscope::session
