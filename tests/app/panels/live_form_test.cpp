#include "app/panels/live_form.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/policies/registry.hpp"
#include "tests/app/session/settled_session.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::window {
namespace {

using ::testing::HasSubstr;

session::LiveRequest request_into(const test::ScratchFolder& folder) {
  std::ofstream(folder.file("config.json")) << "{}";
  session::LiveRequest request;
  request.model_folder = folder.path();
  request.prompt = "hello";
  request.out = folder.file("run.h5");
  request.options.policies = {{"keydiff", {}}};
  request.options.budget = 32;
  request.options.block_size = 16;
  return request;
}

TEST(LiveForm, GivesBackWhatTheCommandLineAskedFor) {
  const test::ScratchFolder folder;
  LiveForm form;
  form.fill(request_into(folder));
  EXPECT_EQ(form.problems().first(), "");
  const session::LiveRequest request = form.request();
  EXPECT_EQ(request.prompt, "hello");
  EXPECT_EQ(request.options.budget.rows, 32);
  ASSERT_EQ(request.options.policies.size(), 1U);
  EXPECT_EQ(request.options.policies[0].name, "keydiff");
}

TEST(LiveForm, KeepsOptionsSchedulePositionsAndTheAnswer) {
  const test::ScratchFolder folder;
  session::LiveRequest request = request_into(folder);
  request.options.policies = {
      {"keydiff", {{"recent", "0.1"}}}, {"keydiff", {{"anchor", "median"}}}, {"sink", {}}};
  request.options.schedule = capture::Schedule::kTogether;
  request.options.cache_positions = true;
  request.options.answer = "2645";
  request.paused = true;
  LiveForm form;
  form.fill(request);
  const session::LiveRequest again = form.request();
  ASSERT_EQ(again.options.policies.size(), 3U);
  EXPECT_EQ(again.options.policies[0].options.at("recent"), "0.1");
  EXPECT_EQ(again.options.policies[1].options.at("anchor"), "median");
  EXPECT_EQ(again.options.schedule, capture::Schedule::kTogether);
  EXPECT_TRUE(again.options.cache_positions);
  EXPECT_EQ(again.options.answer, "2645");
  EXPECT_TRUE(again.paused);
}

TEST(LiveForm, TakesAShareOfThePrompt) {
  const test::ScratchFolder folder;
  session::LiveRequest request = request_into(folder);
  request.options.budget = analysis::parse_budget("25%");
  LiveForm form;
  form.fill(request);
  EXPECT_EQ(form.problems().first(), "");
  EXPECT_EQ(form.request().options.budget.rows_for(100), 25);
}

TEST(LiveForm, LeaveToReplaceEndsWithTheFirstRun) {
  const test::ScratchFolder folder;
  LiveForm form;
  session::LiveRequest forced = request_into(folder);
  std::ofstream(folder.file("run.h5")) << "an earlier recording";
  forced.replace = true;
  form.fill(forced);
  EXPECT_EQ(form.problems().first(), "");
  EXPECT_TRUE(form.request().replace);
  form.started();
  EXPECT_THAT(form.problems().out, HasSubstr("tick Replace"));
  form.again();
  EXPECT_EQ(form.problems().out, "");
  EXPECT_EQ(form.request().out, folder.file("run-2.h5"));
}

TEST(LiveForm, SaysWhatIsMissing) {
  const test::ScratchFolder folder;
  LiveForm form;
  EXPECT_THAT(form.problems().model, HasSubstr("model folder"));
  session::LiveRequest silent = request_into(folder);
  silent.prompt.clear();
  form.fill(silent);
  EXPECT_THAT(form.problems().prompt, HasSubstr("prompt"));
}

TEST(LiveForm, TakesWhatWasDropped) {
  const test::ScratchFolder folder;
  request_into(folder);
  std::ofstream(folder.file("prompt.txt")) << "hello";
  LiveForm form;
  form.take_model(folder.path().string());
  form.take_prompt_file(folder.file("prompt.txt").string());
  EXPECT_EQ(form.problems().first(), "");
  EXPECT_EQ(form.request().prompt_file, folder.file("prompt.txt"));
}

TEST(LiveForm, ARecordingIsRunAgainFromItsTokens) {
  const test::ScratchFolder folder;
  const auto info = session::small_recording()->info();
  LiveForm form;
  request_into(folder);
  form.take_model(folder.path().string());
  form.take_prompt_file("/none");
  form.fill_from(*info, 1);
  EXPECT_EQ(form.problems().first(), "");
  const session::LiveRequest request = form.request();
  EXPECT_EQ(request.options.prompt_ids, info->prompt.id);
  EXPECT_EQ(request.options.budget.rows, 128);
  EXPECT_EQ(request.options.block_size, 64);
  EXPECT_EQ(request.options.policies.size(), 3U);
  form.take_prompt_file(folder.file("config.json").string());
  EXPECT_TRUE(form.request().options.prompt_ids.empty());
}

}  // namespace
}  // namespace keyscope::window
