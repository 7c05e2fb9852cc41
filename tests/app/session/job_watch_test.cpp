#include "app/session/job_watch.hpp"

#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::session {
namespace {

using std::chrono::seconds;

constexpr JobWatch::Clock::time_point kAsked{};

TEST(JobWatch, WaitingIsSaidInSeconds) {
  const JobWatch watch("opening run.h5", "layers", kAsked);
  const JobStatus status = watch.status(kAsked + seconds(7));
  EXPECT_EQ(describe_job(status), "opening run.h5 … 7 s");
  EXPECT_EQ(share_done(status), 0);
}

// It waited for three seconds before it began: they say nothing of its rate.
TEST(JobWatch, TheRateCountsFromTheFirstReport) {
  JobWatch watch("opening run.h5", "layers", kAsked);
  watch.note(0, 64, kAsked + seconds(3));
  watch.note(16, 64, kAsked + seconds(7));
  const JobStatus status = watch.status(kAsked + seconds(7));
  EXPECT_DOUBLE_EQ(*seconds_left(status), 12);  // 48 layers at 4 a second
  EXPECT_DOUBLE_EQ(share_done(status), 0.25);
  EXPECT_EQ(describe_job(status), "opening run.h5: 16 of 64 layers, 4.0 layers/s, 12 s left");
}

TEST(JobWatch, WhatIsCountedMayEndBeforeTheJob) {
  JobWatch watch("exporting bounds to a.svg", "heads", kAsked);
  watch.note(0, 4, kAsked);
  watch.note(4, 4, kAsked + seconds(2));
  const JobStatus status = watch.status(kAsked + seconds(5));
  EXPECT_EQ(seconds_left(status), std::nullopt);
  EXPECT_EQ(describe_job(status), "exporting bounds to a.svg … 5 s");
}

// Two reports within one tick of the clock: no rate, and no division by zero.
TEST(JobWatch, ARateThatIsNotKnownIsLeftOut) {
  JobWatch watch("opening run.h5", "layers", kAsked);
  watch.note(0, 8, kAsked);
  watch.note(1, 8, kAsked);
  EXPECT_EQ(describe_job(watch.status(kAsked)), "opening run.h5: 1 of 8 layers");
}

TEST(JobWatch, OnceCalledOffTheWorkerIsTold) {
  JobWatch watch("opening run.h5", "layers", kAsked);
  EXPECT_NO_THROW(watch.check());
  watch.cancel();
  EXPECT_THROW(watch.check(), Cancelled);
  EXPECT_EQ(describe_job(watch.status(kAsked)), "stopping: opening run.h5");
}

}  // namespace
}  // namespace keyscope::session
