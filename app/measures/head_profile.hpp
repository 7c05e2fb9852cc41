#pragma once

#include <vector>

#include "analysis/head_geometry.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// A KV head and where its keys and queries lie, over all prompt tokens that the run has seen.
struct HeadProfile {
  int layer = 0;
  int kv_head = 0;
  analysis::HeadGeometry geometry;
};

// Every recorded head of a run, by layer and KV head; heads without keys are left out.
//   throws FileError as the recording does, and on keys or queries that are not finite
std::vector<HeadProfile> profile_heads(const recording::Recording& recording, int run);

}  // namespace keyscope::measures
