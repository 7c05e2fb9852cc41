#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "app/figures/keyspace_data.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::session {

// One basis per layer and KV head, for all blocks and policies, so that points do not jump. While a live
// recording grows, a basis is fitted again when its tokens have doubled and when its prompt is complete. Any
// thread may use it.
class BasisCache {
 public:
  // Null where it has to be fitted first.
  std::shared_ptr<const figures::KeyspaceBasis> find(const recording::RecordingInfo& info, int layer,
                                                     int kv_head) const;

  //   throws as figures::fit_keyspace_basis
  std::shared_ptr<const figures::KeyspaceBasis> get(const recording::Recording& recording,
                                                    const recording::RecordingInfo& info, int layer,
                                                    int kv_head);

 private:
  struct Fitted {
    std::shared_ptr<const figures::KeyspaceBasis> basis;
    std::int64_t n_tokens = 0;  // prompt tokens that it was fitted on
  };

  // As find, with the lock held.
  std::shared_ptr<const figures::KeyspaceBasis> known(const recording::RecordingInfo& info, int layer,
                                                      int kv_head) const;

  mutable std::mutex mutex_;
  std::map<std::pair<int, int>, Fitted> fitted_;
};

}  // namespace keyscope::session
