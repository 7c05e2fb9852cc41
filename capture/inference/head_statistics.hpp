#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "capture/inference/attention.hpp"
#include "capture/inference/kv_cache.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::capture {

using recording::kRecordedWindow;

// What becomes of attention over a whole prompt, by true position, evicted rows included.
class HeadStatistics {
 public:
  HeadStatistics(std::int64_t n_heads, std::int64_t n_kv_heads, std::int64_t n_prompt);

  // Adds a block's weights on the rows of a cache: column sums per query head, and sums over those of its
  // queries that are among the prompt's last kRecordedWindow, per query head, if there are any.
  void add(const KvCache& cache, const PerRow<double>& column_sums, const PerRow<double>* window_sums);

  // Tells a record what the prompt came to.
  void finish(recording::LayerBlock& record) const;

 private:
  std::int64_t n_heads_, n_kv_heads_, n_prompt_;
  std::vector<double> received_;  // (n_heads, n_prompt)
  std::vector<double> window_;    // (n_kv_heads, n_prompt)
};

}  // namespace keyscope::capture
