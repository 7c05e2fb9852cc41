#pragma once

#include "capture/recording/hdf5.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::recording {

// What a layer's group says of its rows, from a file that may come from elsewhere: its keys, queries, values
// and attention weights. All throw FileError naming file and dataset, what was found and what was expected.

// The heads that the rows are of: those of `kv_heads`, else all.
RecordedHeads read_recorded_heads(const hdf5::Group& layer, int n_kv_heads);

// How keys, queries and values are stored: the coarsest of them.
StoreType read_store(const hdf5::Group& layer);

// The shapes of what `info` says was recorded, for the tokens of `run`.
void check_layer_rows(const hdf5::Group& layer, const RecordingInfo& info, const RunInfo& run);

}  // namespace keyscope::recording
