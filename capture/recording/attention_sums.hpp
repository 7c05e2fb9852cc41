#pragma once

#include <cstdint>
#include <vector>

#include "capture/recording/records.hpp"

namespace keyscope::recording {

// What the rows still present in one KV head's cache have received so far, kept for these rows only: memory
// grows with the cache, not with the context.
class AttentionSums {
 public:
  // Rows with what they received in all, ascending by position.
  struct Rows {
    std::vector<std::int32_t> position;
    std::vector<double> received;
    std::vector<std::int32_t> queries;
  };

  // The block's own rows [start, start + n_new) join with nothing received.
  void append(std::int32_t start, std::int32_t n_new);

  //   throws InvalidInput where the rows are not all present
  void add(const HeadAttention& block);

  // Takes rows out, with their sums, as they are final now.
  //   throws InvalidInput where the positions are not all present
  Rows evict(const std::vector<std::int32_t>& positions);

  const Rows& rows() const { return rows_; }
  void clear() { rows_ = {}; }

 private:
  Rows rows_;
};

}  // namespace keyscope::recording
