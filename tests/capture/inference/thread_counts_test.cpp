// A capture by every policy is the same with any number of threads.

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "analysis/policies/registry.hpp"
#include "capture/recording/recording.hpp"
#include "tests/capture/inference/arithmetics.hpp"
#include "tests/support/captured.hpp"
#include "tests/support/random_model.hpp"

namespace keyscope::capture {
namespace {

constexpr int kModelKvHeads = 2, kModelQueryHeads = 4;

// All that are made without a file.
std::vector<std::string> policies_without_files() {
  std::vector<std::string> names;
  for (const analysis::PolicyEntry& entry : analysis::registered_policies())
    if (entry.required.empty()) names.push_back(entry.name);
  return names;
}

test::Captured captured_by(const test::RandomModel& folder, Arithmetic arithmetic, int threads) {
  ModelOptions options = test::model_options(arithmetic);
  options.threads = threads;
  const auto model = Model::load(folder.folder(), options);
  CaptureOptions capture;
  capture.prompt_ids = test::random_ids(61, 50);
  capture.policies = test::policies(policies_without_files());
  capture.budget = 14;
  capture.block_size = 9;
  capture.ignore_eos = true;
  return test::run_in_memory(*model, capture);
}

// The most that numbers of the two differ, relative to the largest of them.
double difference(const RowMatrixF& a, const RowMatrixF& b) {
  if (a.rows() != b.rows() || a.cols() != b.cols()) return std::numeric_limits<double>::infinity();
  const float largest = std::max(a.cwiseAbs().maxCoeff(), std::numeric_limits<float>::min());
  return static_cast<double>((a - b).cwiseAbs().maxCoeff() / largest);
}

// Rows that stay are the same; numbers are within `bound`, 0: the same bits.
void expect_same_capture(const test::Captured& first, const test::Captured& second, double bound) {
  const auto info = first.recording->info();
  for (int run = 0; run < std::ssize(info->runs); ++run)
    for (const int layer : info->layers) {
      const std::string what = info->runs[run].plan.policy + ", layer " + std::to_string(layer);
      for (int head = 0; head < kModelKvHeads; ++head) {
        EXPECT_EQ(first.recording->trace(run, layer, head).evicted_at,
                  second.recording->trace(run, layer, head).evicted_at)
            << what;
        EXPECT_LE(
            difference(first.recording->keys(run, layer, head), second.recording->keys(run, layer, head)),
            bound)
            << what;
      }
      for (int head = 0; head < kModelQueryHeads; ++head)
        EXPECT_LE(difference(first.recording->queries(run, layer, head),
                             second.recording->queries(run, layer, head)),
                  bound)
            << what;
    }
}

class ThreadCounts : public ::testing::TestWithParam<Arithmetic> {};

TEST_P(ThreadCounts, EveryPolicyKeepsTheSameRows) {
  const test::RandomModel folder;
  folder.save();
  const auto one = captured_by(folder, GetParam(), 1);
  ASSERT_GE(std::ssize(one.recording->info()->runs), 20);
  for (const int threads : {1, 2, 4}) {
    SCOPED_TRACE(threads);
    const auto first = captured_by(folder, GetParam(), threads),
               again = captured_by(folder, GetParam(), threads);
    expect_same_capture(first, again, 0);
    expect_same_capture(one, first, 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Arithmetics, ThreadCounts, test::both_arithmetics(), test::arithmetic_name);

}  // namespace
}  // namespace keyscope::capture
