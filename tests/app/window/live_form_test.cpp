#include "app/panels/live_form.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scratch_folder.hpp"

namespace keyscope::window {
namespace {

using ::testing::HasSubstr;

session::LiveRequest request_into(const test::ScratchFolder& folder) {
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
  std::string problem;
  const auto request = form.request(problem);
  ASSERT_TRUE(request) << problem;
  EXPECT_EQ(request->prompt, "hello");
  EXPECT_EQ(request->options.budget, 32);
  ASSERT_EQ(request->options.policies.size(), 1U);
  EXPECT_EQ(request->options.policies[0].name, "keydiff");
}

TEST(LiveForm, LeaveToReplaceEndsWithTheFirstRun) {
  const test::ScratchFolder folder;
  std::ofstream(folder.file("run.h5")) << "an earlier recording";
  LiveForm form;
  session::LiveRequest forced = request_into(folder);
  forced.replace = true;
  form.fill(forced);
  std::string problem;
  ASSERT_TRUE(form.request(problem)) << problem;
  EXPECT_TRUE(form.request(problem)->replace);
  form.started();
  EXPECT_FALSE(form.request(problem));
  EXPECT_THAT(problem, HasSubstr("tick Replace"));
}

TEST(LiveForm, SaysWhatIsMissing) {
  const test::ScratchFolder folder;
  LiveForm form;
  std::string problem;
  EXPECT_FALSE(form.request(problem));
  EXPECT_THAT(problem, HasSubstr("model folder"));
  session::LiveRequest silent = request_into(folder);
  silent.prompt.clear();
  form.fill(silent);
  problem.clear();
  EXPECT_FALSE(form.request(problem));
  EXPECT_THAT(problem, HasSubstr("prompt"));
}

}  // namespace
}  // namespace keyscope::window
