#pragma once

#include <cstdint>
#include <memory>

#include "app/figures/keyspace_look.hpp"
#include "app/session/head_points.hpp"

namespace keyscope::session {

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
