#include "app/session/live_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace keyscope::session {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

recording::TokenText words(const std::vector<std::string>& texts) {
  recording::TokenText text;
  text.offset.push_back(0);
  for (const std::string& word : texts) {
    text.id.push_back(1);
    text.text += word;
    text.offset.push_back(static_cast<std::int64_t>(text.text.size()));
  }
  return text;
}

recording::RecordingInfo one_run() {
  recording::RecordingInfo info;
  info.prompt = words({"The", " magic", " number", " is"});
  info.runs.resize(1);
  info.runs[0].plan.name = "keydiff";
  info.runs[0].plan.n_prompt_blocks = 2;
  info.runs[0].plan.max_generated = 5;
  info.runs[0].n_tokens = 2;
  return info;
}

LiveStatus running(std::int64_t block, std::int64_t tokens, double elapsed) {
  LiveStatus status;
  status.stage = LiveStage::kRunning;
  status.progress.run = "keydiff";
  status.progress.block = block;
  status.progress.n_blocks = 6;
  status.progress.tokens_done = tokens;
  status.progress.tokens_total = 8;
  status.progress.elapsed_seconds = elapsed;
  status.pace.note(status.progress, {}, false);
  return status;
}

TEST(DescribeLive, APromptGoesByInBlocks) {
  EXPECT_EQ(describe_live(running(1, 2, 0.5), one_run()), "keydiff, block 1 of 2, 4.0 tokens/s");
}

TEST(DescribeLive, GeneratedTextIsShownAsItComes) {
  recording::RecordingInfo info = one_run();
  info.runs[0].n_tokens = 5;
  info.runs[0].generated = words({" 7", ".", "\n"});
  LiveStatus status = running(3, 4, 0.5);
  ++status.progress.tokens_done;
  status.pace.note(status.progress, LivePace::Clock::time_point() + std::chrono::seconds(2), false);
  EXPECT_THAT(describe_live(status, info),
              AllOf(StartsWith("keydiff, generated token 2 of 5, 0.5 tokens/s, 6 s left: "), HasSubstr(" 7."),
                    EndsWith("↵")));
}

TEST(DescribeLive, EveryStageSaysWhereThingsStand) {
  LiveStatus status = running(1, 2, 0.5);
  status.stage = LiveStage::kPaused;
  EXPECT_THAT(describe_live(status, one_run()), AllOf(StartsWith("paused: keydiff"), Not(HasSubstr("left"))));
  status.stage = LiveStage::kFailed;
  status.message = "no such model";
  EXPECT_THAT(describe_live(status, one_run()), HasSubstr("no such model"));
  status.stage = LiveStage::kCancelled;
  EXPECT_THAT(describe_live(status, {}), HasSubstr("kept"));
  status.stage = LiveStage::kRunning;
  EXPECT_THAT(describe_live(status, {}), HasSubstr("block 1 of 6"));  // nothing has arrived yet
}

TEST(DurationText, SaysWhatMatters) {
  EXPECT_EQ(duration_text(0.4), "0 s");
  EXPECT_EQ(duration_text(65), "1 min 05 s");
  EXPECT_EQ(duration_text(7620), "2 h 07 min");
  EXPECT_EQ(duration_text(-1), "0 s");
}

}  // namespace
}  // namespace keyscope::session
