#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "capture/inference/completion.hpp"
#include "capture/inference/eviction.hpp"

namespace keyscope::capture {

// Notes what becomes of rows that somebody watches, in one layer of one run.
class WatchedRows {
 public:
  WatchedRows() = default;  // none
  //   positions: ascending; must outlive it
  WatchedRows(std::span<const std::int32_t> positions, int layer) : positions_(positions), layer_(layer) {}

  bool any() const { return !positions_.empty(); }

  // Takes what went of the layer's heads at the end of a block.
  //   n_read: tokens that had been read by then
  void note(const LayerEviction& eviction, std::int64_t n_read);
  // Takes what no query will see through the layer's window any more.
  void note_past_window(std::span<const recording::HeadEvictions> heads, std::int64_t n_read);

  // In the order in which they went.
  const std::vector<LostRow>& lost() const { return lost_; }

 private:
  bool watches(std::int32_t position) const;

  std::span<const std::int32_t> positions_;
  int layer_ = 0;
  std::vector<LostRow> lost_;
};

}  // namespace keyscope::capture
