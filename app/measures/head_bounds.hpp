#pragma once

#include <vector>

#include "analysis/theorem_bounds.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// The paper's two results on one KV head of a run, over all its prompt tokens.
struct HeadBounds {
  int layer = 0;
  int kv_head = 0;
  analysis::MeanKeyBounds theorem;        // Theorem 3.2
  analysis::AttentionWeightBounds lemma;  // Lemma 3.1
};

//   run: an index into the recording's runs, which must hold keys and queries of the head
//   throws FileError as the recording does
HeadBounds measure_bounds(const recording::Recording& recording, int run, int layer, int kv_head,
                          const analysis::BoundOptions& options = {});

// Every recorded head of the run, by layer and KV head.
//   options: for each head
std::vector<HeadBounds> measure_all_bounds(const recording::Recording& recording, int run,
                                           const analysis::BoundOptions& options = {});

}  // namespace keyscope::measures
