#include "app/session/live_check.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scratch_folder.hpp"

namespace keyscope::session {
namespace {

using test::ScratchFolder;
using ::testing::HasSubstr;

// A request that can be run, of a folder that looks like a model's.
LiveRequest sound_request(const ScratchFolder& folder) {
  std::ofstream(folder.file("config.json")) << "{}";
  LiveRequest request;
  request.model_folder = folder.path();
  request.prompt = "hello";
  request.options.policies = {{"keydiff", {}}};
  request.options.budget = 32;
  request.options.block_size = 16;
  return request;
}

TEST(CheckLive, ASoundRequestHasNoProblem) {
  const ScratchFolder folder;
  LiveRequest request = sound_request(folder);
  EXPECT_EQ(check_live(request).first(), "");
  request.options.policies = {{"none", {}}};
  request.options.budget = 0;  // nothing evicts
  EXPECT_EQ(check_live(request).first(), "");
}

TEST(CheckLive, EveryFieldSaysWhatIsWrongWithIt) {
  const ScratchFolder folder;
  LiveRequest request = sound_request(folder);
  request.options.budget = 0;
  request.options.block_size = 0;
  request.options.generate = -1;
  request.prompt.clear();
  LiveProblems problems = check_live(request);
  EXPECT_NE(problems.budget, "");
  EXPECT_NE(problems.block, "");
  EXPECT_NE(problems.generate, "");
  EXPECT_THAT(problems.prompt, HasSubstr("write a prompt"));
  EXPECT_EQ(problems.first(), problems.prompt);
  request.options.policies.clear();
  request.model_folder = folder.file("none");
  problems = check_live(request);
  EXPECT_NE(problems.policies, "");
  EXPECT_THAT(problems.model, HasSubstr("no such folder"));
  std::filesystem::create_directory(folder.file("empty"));
  request.model_folder = folder.file("empty");
  EXPECT_THAT(check_live(request).model, HasSubstr("config.json"));
}

TEST(CheckLive, APromptMayBeAFileOrIds) {
  const ScratchFolder folder;
  LiveRequest request = sound_request(folder);
  request.prompt.clear();
  request.prompt_file = folder.file("prompt.txt");
  EXPECT_THAT(check_live(request).prompt, HasSubstr("no such file"));
  request.prompt_file = folder.path();
  EXPECT_THAT(check_live(request).prompt, HasSubstr("no file"));
  request.prompt_file = folder.file("config.json");
  EXPECT_EQ(check_live(request).prompt, "");
  request.prompt_file.clear();
  request.options.prompt_ids = {1, 2};
  EXPECT_EQ(check_live(request).prompt, "");
}

TEST(CheckLive, AnExistingRecordingIsNotReplacedUnasked) {
  const ScratchFolder folder;
  LiveRequest request = sound_request(folder);
  request.out = folder.file("run.h5");
  EXPECT_EQ(check_live(request).out, "");
  std::ofstream(request.out) << "earlier";
  std::ofstream(folder.file("run-2.h5")) << "earlier";
  EXPECT_THAT(check_live(request).out, HasSubstr("run-3.h5"));
  EXPECT_EQ(free_name(request.out), folder.file("run-3.h5"));
  request.replace = true;
  EXPECT_EQ(check_live(request).out, "");
}

TEST(KindOfDropped, GoesByWhatIsThere) {
  const ScratchFolder folder;
  EXPECT_EQ(kind_of_dropped(folder.path()), DroppedKind::kRecording);
  std::ofstream(folder.file("config.json")) << "{}";
  EXPECT_EQ(kind_of_dropped(folder.path()), DroppedKind::kModel);
  std::ofstream(folder.file("notes")) << "größe\n";
  EXPECT_EQ(kind_of_dropped(folder.file("notes")), DroppedKind::kPrompt);
  std::ofstream(folder.file("run.h5")) << "text, whatever its name says";
  EXPECT_EQ(kind_of_dropped(folder.file("run.h5")), DroppedKind::kRecording);
  std::ofstream(folder.file("data"), std::ios::binary) << std::string("\x89HDF\r\n\x1a\n\0\0\0", 11);
  EXPECT_EQ(kind_of_dropped(folder.file("data")), DroppedKind::kRecording);
  EXPECT_EQ(kind_of_dropped(folder.file("gone.txt")), DroppedKind::kRecording);
}

}  // namespace
}  // namespace keyscope::session
