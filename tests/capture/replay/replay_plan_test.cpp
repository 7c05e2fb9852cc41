// What a replay accepts, and what it says of what it does not.

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "capture/recording/writer.hpp"
#include "tests/capture/inference/captured.hpp"
#include "tests/capture/replay/replayed.hpp"

namespace keyscope::replay {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Kind>
std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Kind& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another kind of error: ") + error.what();
  }
  return "no error";
}

class ReplayPlanTest : public ::testing::Test {
 protected:
  std::string captured(const capture::CaptureOptions& options = test::full_cache_options()) {
    return test::capture_to(folder_.file("captured.h5"), options);
  }
  static ReplayPlan plan(const std::string& source, const ReplayOptions& options) {
    return plan_replay(open_source(source), options);
  }

  test::ScratchFolder folder_;
};

TEST_F(ReplayPlanTest, KeepsWhoModelAndPromptAreAndSaysWhatWasDone) {
  capture::CaptureOptions capture_options = test::full_cache_options();
  capture_options.command = "keyscope capture";
  capture_options.score_last = 7;
  const std::string source = captured(capture_options);
  ReplayOptions options = test::replay_options({"none", "keydiff", "keydiff:recent=0.2"});
  options.seed = 5;
  const ReplayPlan made = plan(source, options);
  const auto before = recording::open_recording(source)->info()->provenance;
  EXPECT_EQ(made.provenance.model_sha256, before.model_sha256);
  EXPECT_EQ(made.provenance.prompt_sha256, before.prompt_sha256);
  EXPECT_EQ(made.provenance.command, "keyscope replay");
  EXPECT_EQ(made.provenance.seed, 5);
  const auto configuration = nlohmann::json::parse(made.provenance.configuration);
  EXPECT_EQ(configuration["budget"], 12);
  EXPECT_EQ(configuration["score_last"], 7);  // `analyze` reads it where no logits were recorded
  EXPECT_EQ(configuration["source"]["command"], "keyscope capture");
  EXPECT_EQ(configuration["source"]["configuration"]["block"], 16);
  ASSERT_EQ(made.runs.size(), 2u);
  EXPECT_EQ(made.runs[0].name, "keydiff");
  EXPECT_EQ(made.runs[1].name, "keydiff-2");
  EXPECT_EQ(made.runs[1].n_prompt_blocks, 4);
  EXPECT_EQ(made.store, recording::StoreType::kFloat32);
}

class RoundedSource : public ReplayPlanTest, public ::testing::WithParamInterface<recording::StoreType> {};

TEST_P(RoundedSource, IsKnown) {
  capture::CaptureOptions options = test::full_cache_options();
  options.store = GetParam();
  const ReplayPlan made = plan(captured(options), test::replay_options({"keydiff"}));
  EXPECT_EQ(made.store, GetParam());
  EXPECT_THAT(made.provenance.configuration,
              HasSubstr("rounded to " + std::string(recording::store_name(GetParam()))));
}

INSTANTIATE_TEST_SUITE_P(ReplayPlanTest, RoundedSource,
                         ::testing::Values(recording::StoreType::kFloat16, recording::StoreType::kBFloat16));

TEST_F(ReplayPlanTest, RefusesARecordingOfSomeHeads) {
  capture::CaptureOptions options = test::full_cache_options();
  options.heads = {1};
  const std::string source = captured(options);
  EXPECT_THAT(message_of<FileError>([&] { plan(source, test::replay_options({"keydiff"})); }),
              AllOf(HasSubstr("KV heads 1 "), HasSubstr("without --heads")));
}

TEST_F(ReplayPlanTest, RefusesOptionsThatCannotBe) {
  const std::string source = captured();
  const auto refused = [&](const std::function<void(ReplayOptions&)>& change) {
    ReplayOptions options = test::replay_options({"keydiff"});
    change(options);
    return message_of<UsageError>([&] { plan(source, options); });
  };
  EXPECT_THAT(refused([](auto& options) { options.budget = 0; }), HasSubstr("--budget"));
  EXPECT_THAT(refused([](auto& options) { options.block_size = 0; }), HasSubstr("--block"));
  EXPECT_THAT(refused([](auto& options) { options.policies = test::policies({"none"}); }),
              HasSubstr("--policy"));
  EXPECT_THAT(refused([](auto& options) { options.layers = {2}; }),
              AllOf(HasSubstr("--layers: 2"), HasSubstr("0, 1")));
  EXPECT_THAT(refused([](auto& options) { options.run = "sink"; }),
              AllOf(HasSubstr("'sink'"), HasSubstr("none")));
}

TEST_F(ReplayPlanTest, RefusesARunThatEvicted) {
  capture::CaptureOptions options = test::full_cache_options();
  options.policies = test::policies({"none", "keydiff"});
  options.budget = 12;
  const std::string source = captured(options);
  ReplayOptions again = test::replay_options({"sink"});
  again.run = "keydiff";
  EXPECT_THAT(message_of<UsageError>([&] { plan(source, again); }),
              AllOf(HasSubstr("keydiff"), HasSubstr("budget of 12"), HasSubstr("hidden states")));
}

TEST_F(ReplayPlanTest, RefusesWhatWasNotRecorded) {
  capture::CaptureOptions options = test::full_cache_options();
  options.record_values = false;
  const std::string source = captured(options);
  const auto refused = [&](const std::string& policy) {
    return message_of<FileError>([&] { plan(source, test::replay_options({policy})); });
  };
  EXPECT_THAT(refused("cur"), AllOf(HasSubstr("captured.h5"), HasSubstr("values"), HasSubstr("--record")));
  EXPECT_THAT(refused("snapkv:window=20"), AllOf(HasSubstr("attention"), HasSubstr("--record")));
  options.record_keys = false;
  const std::string keyless = test::capture_to(folder_.file("keyless.h5"), options);
  EXPECT_THAT(message_of<FileError>([&] { plan(keyless, test::replay_options({"sink"})); }),
              AllOf(HasSubstr("keyless.h5"), HasSubstr("keys were not recorded")));
}

// A capture of two runs that is cut short in one of them.
std::string capture_until(const std::filesystem::path& out, int run) {
  capture::CaptureOptions options = test::full_cache_options();
  options.policies = test::policies({"none", "keydiff"});
  options.budget = 12;
  options.generate = 4;
  const auto writer = recording::make_recording_writer(out, false);
  std::array<recording::RecordSink*, 1> sinks{writer.get()};
  capture::CaptureControl control;
  control.on_progress = [&](const capture::CaptureProgress& now) {
    if (now.run_index == run && now.block == 2) control.cancel();
  };
  EXPECT_THROW(capture::run_capture(test::tiny_model(), options, sinks, control), Cancelled);
  return out.string();
}

TEST_F(ReplayPlanTest, RefusesAPromptThatWasNotReadToItsEnd) {
  const std::string source = capture_until(folder_.file("cut.h5"), 0);
  EXPECT_THAT(message_of<FileError>([&] { plan(source, test::replay_options({"keydiff"})); }),
              AllOf(HasSubstr("cut.h5"), HasSubstr("32 of 50")));
}

TEST_F(ReplayPlanTest, TakesAWholeRunOfACaptureThatWasCutShort) {
  const std::string source = capture_until(folder_.file("cut.h5"), 1);
  const auto replayed =
      test::replay_to(folder_.file("replayed.h5"), source, test::replay_options({"keydiff"}));
  const auto info = replayed->info();
  EXPECT_TRUE(info->complete);
  ASSERT_EQ(info->runs.size(), 2u);
  EXPECT_EQ(info->runs[0].n_tokens, 53);
  EXPECT_EQ(info->runs[0].generated.size(), 4);
  EXPECT_EQ(replayed->trace(1, 0, 0).evicted_at.size(), 50u);
}

}  // namespace
}  // namespace keyscope::replay
