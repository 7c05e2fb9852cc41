#pragma once

#include <functional>

#include "capture/recording/hdf5.hpp"
#include "capture/replay/replay_plan.hpp"

namespace keyscope::replay {

// Lays out the recording of a replay below the root: where it comes from, the source run copied, and every
// replayed run with nothing evicted and no block counted yet.
//   after_chunk, after_layer: see ReplayFile
void create_replay_layout(recording::hdf5::Group& root, const Source& source, const ReplayPlan& plan,
                          const std::function<void()>& after_chunk, const std::function<void()>& after_layer);

}  // namespace keyscope::replay
