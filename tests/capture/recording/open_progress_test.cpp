#include "capture/recording/open_progress.hpp"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "capture/recording/writer.hpp"
#include "tests/capture/recording/synthetic_capture.hpp"
#include "tests/scratch_folder.hpp"

namespace keyscope::recording {
namespace {

std::string recorded_into(const test::ScratchFolder& folder) {
  const auto path = folder.file("recording.h5");
  auto writer = make_recording_writer(path, false);
  SyntheticCapture().send(*writer);
  writer->end(true);
  return path.string();
}

TEST(OpenProgress, CountsTheLayersOfAllRuns) {
  const test::ScratchFolder folder;
  std::vector<std::pair<std::int64_t, std::int64_t>> reports;
  open_recording(recorded_into(folder), [&](std::int64_t n_checked, std::int64_t n_layers) {
    reports.emplace_back(n_checked, n_layers);
  });
  // Two layers of each of two runs.
  EXPECT_EQ(reports, (decltype(reports){{0, 4}, {1, 4}, {2, 4}, {3, 4}, {4, 4}}));
}

TEST(OpenProgress, WhatItThrowsEndsTheOpeningAndTheFileOpensAgain) {
  const test::ScratchFolder folder;
  const std::string path = recorded_into(folder);
  std::int64_t most = 0;
  const auto stop = [&](std::int64_t n_checked, std::int64_t) {
    most = n_checked;
    if (n_checked == 2) throw Cancelled("enough");
  };
  EXPECT_THROW(open_recording(path, stop), Cancelled);
  EXPECT_EQ(most, 2);
  EXPECT_TRUE(open_recording(path)->info()->complete);
}

}  // namespace
}  // namespace keyscope::recording
