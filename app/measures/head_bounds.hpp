#pragma once

#include <cstdint>
#include <optional>
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

namespace keyscope::validation {

// One inequality on the pairs of key and query that it was applied to.
struct BoundTally {
  std::int64_t pairs = 0;
  std::int64_t violations = 0;
  std::optional<double> min_slack;  // none without pairs
};

// Theorem 3.2 and Lemma 3.1 of KeyDiff on one KV head of the full-cache run; analysis/theorem_bounds.hpp says
// what each of them is.
struct HeadBounds {
  int layer = 0;
  int kv_head = 0;
  BoundTally theorem;                   // over all keys and queries
  std::optional<double> theorem_share;  // of all pairs, those that meet its hypotheses
  std::optional<double> theorem_share_causal;
  BoundTally lemma_stated;  // M = sup ‖k‖², over the pairs with cos(k*, q) >= 0 that the proof covers
  BoundTally lemma_proof;   // M = sup ‖k‖, likewise
  BoundTally lemma_always;  // the form that needs no assumption, over all pairs
  std::optional<double> lemma_share;  // of the causally visible pairs, those with cos(k*, q) >= 0
};

//   run: an index into the recording's runs, which must hold keys and queries
//   throws FileError as the recording does
HeadBounds measure_head_bounds(const recording::Recording& recording, int run, int layer, int kv_head);

}  // namespace keyscope::validation
