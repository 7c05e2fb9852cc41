#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "app/figures/keyspace_data.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::session {

// Which head of which run.
struct HeadKey {
  int run = 0;
  int layer = 0;
  int kv_head = 0;
  int source = 0;  // as RunId's: whose run it is

  auto operator<=>(const HeadKey&) const = default;
};

// The rectangle that points lie in.
struct Extent {
  double x_low = 0, x_high = 0, y_low = 0, y_high = 0;

  bool empty() const { return x_low > x_high; }
  bool operator==(const Extent&) const = default;
};

// Everything the window shows of one head of one run at any block, read and projected once by a worker and
// never changed after.
struct HeadPoints {
  HeadKey head;
  std::int64_t n_tokens = 0;
  std::shared_ptr<const figures::KeyspaceBasis> basis;
  RowMatrixF keys;         // (n_tokens, head_dim)
  RowMatrixF coordinates;  // (n_tokens, 3) of the keys in the basis
  recording::HeadTrace trace;
  std::vector<std::int64_t> seen;  // (n_blocks) tokens seen by the end of each block
  RowMatrixD mean_key;             // (n_blocks, head_dim) over the tokens seen by then: the anchor
  RowMatrixD mean_query;  // (n_blocks, head_dim) over the group's queries by then; no rows: not recorded
  Extent extent;          // of all keys, anchors and mean queries
  bool sketched = false;  // in nearly the right basis, and without mean queries

  std::int64_t n_blocks() const { return static_cast<std::int64_t>(seen.size()); }
  std::size_t bytes() const;
};

// Reads one head of one run up to the blocks that `info` counts.
//   basis: of the same layer and head
//   earlier: the same head, read when the recording was shorter, or sketched; may be null. Only what is not
//   in it is read
//   throws FileError as the recording does
std::shared_ptr<const HeadPoints> read_head_points(const recording::Recording& recording,
                                                   const recording::RecordingInfo& info, const HeadKey& head,
                                                   std::shared_ptr<const figures::KeyspaceBasis> basis,
                                                   const HeadPoints* earlier);

// Whether reading a head takes so long that it should be sketched first: there are many queries.
bool worth_sketching(const recording::RecordingInfo& info);

// A head as far as it can be had quickly: all its keys, in a basis sketched from some of the keys and
// queries.
//   throws FileError as the recording does
std::shared_ptr<const HeadPoints> sketch_head_points(const recording::Recording& recording,
                                                     const recording::RecordingInfo& info,
                                                     const HeadKey& head);

}  // namespace keyscope::session
