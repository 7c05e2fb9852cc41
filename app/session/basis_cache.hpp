#pragma once

#include <map>
#include <memory>
#include <utility>

#include "app/figures/keyspace_basis.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::session {

// One basis per layer and KV head, for all blocks and policies, so that points do not jump. While a live
// recording grows, a basis is fitted again when its tokens have doubled and when its prompt is complete. Used
// by one worker thread.
class BasisCache {
 public:
  //   throws as figures::fit_keyspace_basis
  std::shared_ptr<const figures::KeyspaceBasis> get(const recording::Recording& recording,
                                                    const recording::RecordingInfo& info, int layer,
                                                    int kv_head);

 private:
  struct Fitted {
    std::shared_ptr<const figures::KeyspaceBasis> basis;
    std::int64_t n_tokens = 0;  // prompt tokens that it was fitted on
  };
  std::map<std::pair<int, int>, Fitted> fitted_;
};

}  // namespace keyscope::session
