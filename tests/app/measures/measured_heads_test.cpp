#include "app/measures/measured_heads.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_group.h>

#include "base/errors.hpp"
#include "tests/support/drawn_recording.hpp"

namespace keyscope::measures {

namespace {

constexpr int kHeads = 2;          // of DrawnRecording's one layer
constexpr std::int64_t kLast = 4;  // its last prompt block
constexpr int kOfNone = 0, kOfKeydiff = 1;

using testing::ElementsAre;

// Counts how often heads of a run are read.
class CountedRecording : public DrawnRecording {
 public:
  recording::HeadTrace trace(int run, int layer, int kv_head) const override {
    before_reading();
    ++n_read[run];
    if (is_unreadable) throw FileError("a head that cannot be read");
    return DrawnRecording::trace(run, layer, kv_head);
  }

  mutable std::array<std::atomic<int>, 2> n_read{};
  std::function<void()> before_reading = [] {};
  bool is_unreadable = false;
};

std::vector<std::optional<double>> values_of(std::span<const HeadMeasures> heads, HeadValue measure) {
  std::vector<std::optional<double>> values;
  for (const HeadMeasures& head : heads) values.push_back(head.*measure);
  return values;
}

TEST(MeasuredHeads, AreThoseOfEveryHeadByItself) {
  using M = HeadMeasures;
  const DrawnRecording recording;
  const MeasuredHeads heads(recording);
  const Moment moments[] = {{kOfNone, -1}, {kOfKeydiff, 2}, {kOfKeydiff, -1}};
  for (const HeadValue measure : {&M::log_volume_nats, &M::cosine_objective, &M::mean_pairwise_cosine,
                                  &M::attention_mass_kept, &M::output_error, &M::spearman}) {
    const auto found = heads.with(part_of(measure), moments);
    ASSERT_EQ(found.size(), std::size(moments));
    for (std::size_t m = 0; m < found.size(); ++m) {
      ASSERT_EQ(found[m].size(), std::size_t{kHeads});
      for (int head = 0; head < kHeads; ++head) {
        const auto alone =
            measure_head(recording, moments[m].run, 3, head, {part_of(measure)}, moments[m].block);
        EXPECT_EQ(found[m][head].kv_head, head);
        EXPECT_EQ(found[m][head].*measure, alone.*measure);
        EXPECT_TRUE((alone.*measure).has_value());
      }
    }
  }
}

TEST(MeasuredHeads, ReadNothingForWhatIsThere) {
  const CountedRecording recording;
  const MeasuredHeads heads(recording);
  const Moment evicting[] = {{kOfKeydiff}}, both[] = {{kOfNone}, {kOfKeydiff, kLast}};
  const auto first = heads.with(Part::kPairs, evicting);
  EXPECT_EQ(recording.n_read[kOfKeydiff], kHeads);
  const auto others = heads.with(Part::kPairs, both);
  EXPECT_EQ(recording.n_read[kOfKeydiff], kHeads) << "the same moment by its number";
  EXPECT_EQ(recording.n_read[kOfNone], kHeads) << "only this run was missing";
  EXPECT_EQ(others[1].data(), first[0].data());
  heads.with(Part::kVolume, evicting);
  EXPECT_EQ(recording.n_read[kOfKeydiff], 2 * kHeads) << "another part";
}

TEST(MeasuredHeads, MeasureTogetherWhatIsExpected) {
  const CountedRecording recording;
  const MeasuredHeads heads(recording);
  const Moment moments[] = {{kOfKeydiff, 1}, {kOfKeydiff, 3}};
  heads.expect({Part::kVolume, Part::kPairs}, moments);
  EXPECT_EQ(recording.n_read[kOfKeydiff], 0);
  for (const Part part : {Part::kPairs, Part::kVolume}) heads.with(part, moments);
  EXPECT_EQ(recording.n_read[kOfKeydiff], kHeads);
}

// The first to read waits for the second to ask, where there are threads enough.
TEST(MeasuredHeads, AreMeasuredOnceForTwoWhoAskAtATime) {
  CountedRecording recording;
  const MeasuredHeads heads(recording);
  const Moment moments[] = {{kOfNone}, {kOfKeydiff}};
  std::atomic<int> n_asking = 0;
  std::once_flag waited;
  recording.before_reading = [&] {
    std::call_once(waited, [&] {
      for (int ms = 0; n_asking < 2 && ms < 1000; ++ms)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until it does no more than wait
    });
  };
  std::array<std::vector<std::optional<double>>, 2> found;
  oneapi::tbb::parallel_for(
      std::size_t{0}, found.size(),
      [&](std::size_t i) {
        ++n_asking;
        found[i] = values_of(heads.with(Part::kPairs, moments)[1], &HeadMeasures::mean_pairwise_cosine);
        EXPECT_EQ(heads.profiles(kOfNone).size(), std::size_t{kHeads});
      },
      oneapi::tbb::simple_partitioner());
  EXPECT_EQ(recording.n_read[kOfKeydiff], kHeads);
  EXPECT_EQ(recording.n_read[kOfNone], 2 * kHeads) << "and once more for their profiles";
  EXPECT_EQ(found[0], found[1]);
  EXPECT_TRUE(found[0].at(0).has_value());
}

TEST(MeasuredHeads, AreMeasuredAgainWhereThatFailed) {
  CountedRecording recording;
  const MeasuredHeads heads(recording);
  const Moment moments[] = {{kOfKeydiff}};
  recording.is_unreadable = true;
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(heads.with(Part::kVolume, moments), FileError);
    EXPECT_THROW(heads.profiles(kOfKeydiff), FileError);
  }
  recording.is_unreadable = false;
  EXPECT_EQ(heads.with(Part::kVolume, moments)[0][1].log_volume_nats,
            measure_head(recording, kOfKeydiff, 3, 1).log_volume_nats);
  EXPECT_EQ(heads.profiles(kOfKeydiff).size(), std::size_t{kHeads});
}

// Whoever asked first may be called off, and others still want them.
TEST(MeasuredHeads, AreMeasuredToTheirEndWhereTheFirstToAskIsCalledOff) {
  const DrawnRecording recording;
  const MeasuredHeads heads(recording);
  const Moment moments[] = {{kOfKeydiff}};
  oneapi::tbb::task_group group;
  group.run_and_wait([&] {
    group.cancel();
    heads.with(Part::kVolume, moments);
    heads.profiles(kOfKeydiff);
  });
  for (int head = 0; head < kHeads; ++head)
    EXPECT_TRUE(heads.with(Part::kVolume, moments)[0][head].log_volume_nats);
  EXPECT_EQ(heads.profiles(kOfKeydiff).size(), std::size_t{kHeads});
}

TEST(MeasuredHeads, RefuseAMomentThatIsNotThere) {
  const DrawnRecording recording;
  const MeasuredHeads heads(recording);
  const Moment moments[] = {{kOfKeydiff, 99}};
  EXPECT_THROW(heads.with(Part::kVolume, moments), InvalidInput);
}

}  // namespace

}  // namespace keyscope::measures
