#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/matrix_view.hpp"
#include "app/figures/figure.hpp"
#include "app/figures/keyspace_look.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

// One head of one run at the end of a block.
struct KeyMoment {
  int run = 0;
  int layer = 0;
  int kv_head = 0;
  std::int64_t block = -1;
  std::int64_t n_seen = 0;
};

// What the keys of a moment are coloured by, and the scale to read it on.
struct KeyValues {
  std::vector<float> values;  // (n_seen); NaN where a key has none; empty: the colour is the decision's
  ColourScale scale;
};

// Why keys of a run cannot be coloured so: what the recording does not hold for it. Empty where they can.
std::string colour_refusal(const recording::RecordingInfo& info, int run, KeyColour colour);

// Values to colour the keys of a moment by.
//   position: of the token. attention: received, of prompt tokens, in units of one query's attention.
//   score: what the run's policy gives the rows that it had before it evicted at the end of this block; of
//   `none`, which ranks nothing, KeyDiff's. margin: of those evicted by then. class: a TokenClass each.
//   keys: (n_seen, head_dim); trace: of the same head
//   throws UsageError as colour_refusal says, and FileError as the recording does
KeyValues key_values(const recording::Recording& recording, const recording::RecordingInfo& info,
                     const KeyMoment& moment, KeyColour colour, const MatrixView& keys,
                     const recording::HeadTrace& trace);

// "12 of 40 keys have a value, the others are grey"; empty where all have one or the colour is the
// decision's.
std::string values_note(const KeyValues& colours);

}  // namespace keyscope::figures
