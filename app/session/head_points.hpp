#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "app/figures/keyspace_data.hpp"
#include "app/figures/scales.hpp"
#include "base/recently_used.hpp"
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
  RowMatrixD mean_query;   // (n_blocks, head_dim) over the group's queries by then; no rows: not recorded
  figures::Extent extent;  // of all keys, anchors and mean queries
  bool sketched = false;   // in nearly the right basis, and without mean queries

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

using PointsCache = RecentlyUsed<HeadPoints, &HeadPoints::head>;

// Whether what was found of the first `n_then` prompt tokens has to be found again now that there are
// `n_now`. While a recording grows, when they have doubled and when the prompt is complete; at rest, whenever
// there are more, so that what is shown is of all.
bool outgrown(std::int64_t n_then, std::int64_t n_now, const recording::RecordingInfo& info, bool grows);

// One basis per layer and KV head, for all blocks and policies, so that points do not jump; while a live
// recording grows, as long as it is not outgrown. Any thread may use it.
class BasisCache {
 public:
  // Null where it has to be fitted first.
  //   grows: as for outgrown
  std::shared_ptr<const figures::KeyspaceBasis> find(const recording::RecordingInfo& info, int layer,
                                                     int kv_head, bool grows = false) const;

  //   throws as figures::fit_keyspace_basis
  std::shared_ptr<const figures::KeyspaceBasis> get(const recording::Recording& recording,
                                                    const recording::RecordingInfo& info, int layer,
                                                    int kv_head, bool grows = false);

 private:
  // As find, with the lock held.
  std::shared_ptr<const figures::KeyspaceBasis> known(const recording::RecordingInfo& info, int layer,
                                                      int kv_head, bool grows) const;

  mutable std::mutex mutex_;
  std::map<std::pair<int, int>, std::shared_ptr<const figures::KeyspaceBasis>> fitted_;
};

// The queries of one head's group, read when they are asked for and kept until another head's are: so that
// playing through blocks reads them once. Used by one worker thread.
class QueryCache {
 public:
  // Rows that take more than this are not kept but read again.
  static constexpr std::size_t kMostBytes = std::size_t{256} << 20U;

  // Where the group's queries of all tokens seen by the end of a block lie: (group_size · n_seen,
  // dimensions), query head after query head.
  //   points: of the head; block: of `points`
  //   throws FileError as the recording does, so where queries were not recorded
  RowMatrixF place(const recording::Recording& recording, const HeadPoints& points, std::int64_t block,
                   figures::Projection projection);

 private:
  // Rows of all tokens that the head had then.
  struct Held {
    HeadKey head;
    std::int64_t n_tokens = -1;
    std::shared_ptr<const figures::KeyspaceBasis> basis;
    RowMatrixF rows;

    bool is_of(const HeadPoints& points) const;
  };

  Held recorded_;   // (group_size · n_tokens, head_dim)
  Held projected_;  // (group_size · n_tokens, 3) in the basis
};

}  // namespace keyscope::session
