#pragma once

#include <mutex>
#include <set>
#include <vector>

#include "app/figures/catalogue.hpp"
#include "app/session/head_points.hpp"
#include "app/session/job_watch.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::session {

// The heads that a figure reads one after another: those of its runs where it is about a whole recording;
// none where it is about one head, which is read at once.
//   throws as chosen_runs
std::vector<HeadKey> heads_of_figure(const recording::RecordingInfo& info,
                                     const figures::FigureRequest& request);

// Another recording, read under a watch: it is told of each head when the first of it is read, and once the
// job is called off every further read throws Cancelled. What is counted has been begun rather than done: a
// head too early, and where heads are read in parallel one for every thread.
class WatchedRecording final : public recording::Recording {
 public:
  //   recording, watch: outlive this; heads: those that count
  WatchedRecording(const recording::Recording& recording, const std::vector<HeadKey>& heads, JobWatch& watch);

  std::shared_ptr<const recording::RecordingInfo> info() const override { return recording_.info(); }
  RowMatrixF keys(int run, int layer, int kv_head, std::int64_t first, std::int64_t count) const override;
  RowMatrixF queries(int run, int layer, int query_head, std::int64_t first,
                     std::int64_t count) const override;
  RowMatrixF values(int run, int layer, int kv_head, std::int64_t first, std::int64_t count) const override;
  recording::HeadTrace trace(int run, int layer, int kv_head) const override;
  recording::AttentionStatistics statistics(int run, int layer) const override;
  RowMatrixF attention(int run, int layer, int query_head, std::int64_t first,
                       std::int64_t count) const override;
  RowMatrixF logits(int run) const override;

 private:
  void note(const HeadKey& head) const;
  int kv_head_of(int query_head) const;

  const recording::Recording& recording_;
  JobWatch& watch_;
  int group_size_ = 1;
  std::int64_t n_heads_ = 0;
  mutable std::mutex mutex_;
  mutable std::set<HeadKey> unread_;
};

}  // namespace keyscope::session
