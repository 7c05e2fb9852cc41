#include "app/session/watched_recording.hpp"

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "app/figures/registry.hpp"
#include "tests/app/session/settled_session.hpp"

namespace keyscope::session {
namespace {

figures::FigureRequest request_of(const char* name) {
  figures::FigureRequest request;
  request.name = name;
  return request;
}

TEST(WatchedRecording, AFigureOfOneHeadCountsNone) {
  EXPECT_TRUE(heads_of_figure(*small_recording()->info(), request_of("cosine-matrix")).empty());
}

TEST(WatchedRecording, AFigureOfOneRunCountsItsHeadsAndThoseOfItsReference) {
  const auto info = small_recording()->info();
  figures::FigureRequest request = request_of("head-map");
  request.runs = {"keydiff"};
  EXPECT_EQ(heads_of_figure(*info, request).size(), 16U);  // 4 layers × 4 heads
  request.reference = "sink";
  EXPECT_EQ(heads_of_figure(*info, request).size(), 32U);
}

TEST(WatchedRecording, AFigureOfSeveralRunsCountsTheHeadsOfAll) {
  EXPECT_EQ(heads_of_figure(*small_recording()->info(), request_of("redundancy")).size(), 48U);
}

TEST(WatchedRecording, EveryHeadCountsOnceHoweverItIsRead) {
  const auto recording = small_recording();
  JobWatch watch("reading", "heads");
  const WatchedRecording watched(*recording, {{1, 0, 0}, {1, 0, 1}}, watch);
  EXPECT_EQ(watch.status().total, 2);
  EXPECT_EQ(watched.keys(1, 0, 0, 0, -1), recording->keys(1, 0, 0, 0, -1));
  watched.trace(1, 0, 0);
  watched.keys(0, 0, 1, 0, -1);  // of another run: not counted
  EXPECT_EQ(watch.status().done, 1);
  watched.queries(1, 0, 3, 0, -1);  // two query heads share a KV head: this one's is 1
  EXPECT_EQ(watch.status().done, 2);
}

// All but those of a run that a figure leaves out, as relaxation-gap does with one that evicts nothing.
TEST(WatchedRecording, FiguresOfARecordingReadTheHeadsThatAreCounted) {
  const auto recording = small_recording();
  for (const char* name : {"rank-correlation", "mean-cosines", "key-norms", "redundancy", "bounds", "overlap",
                           "diversity", "mean-key-query-cosine", "ablation"}) {
    JobWatch watch("reading", "heads");
    const auto heads = heads_of_figure(*recording->info(), request_of(name));
    figures::build_figure(WatchedRecording(*recording, heads, watch), request_of(name));
    EXPECT_EQ(watch.status().done, std::ssize(heads)) << name;
  }
}

TEST(WatchedRecording, ACancelledFigureReadsNoMore) {
  const auto recording = small_recording();
  JobWatch watch("reading", "heads");
  const auto request = request_of("rank-correlation");
  const WatchedRecording watched(*recording, heads_of_figure(*recording->info(), request), watch);
  watch.cancel();
  EXPECT_THROW(figures::build_figure(watched, request), Cancelled);
  EXPECT_EQ(recording->key_reads(), 0);
}

}  // namespace
}  // namespace keyscope::session
