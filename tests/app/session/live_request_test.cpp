#include "app/session/live_request.hpp"

#include <filesystem>
#include <fstream>
#include <optional>
#include <semaphore>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.hpp"
#include "base/text.hpp"
#include "tests/app/session/live_capture_double.hpp"
#include "tests/support/scratch_folder.hpp"

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

TEST(PromptCounter, CountsWhatStandsThere) {
  std::counting_semaphore<> done(0);
  PromptCounter counter([&] { done.release(); });
  LiveRequest request;
  request.model_folder = std::filesystem::path(KEYSCOPE_SOURCE_DIR) / "assets/demo_model";
  request.prompt = "The magic number is";
  EXPECT_EQ(counter.count(request), std::nullopt);
  done.acquire();
  const auto tokenizer = tokenizer::Tokenizer::load(request.model_folder);
  EXPECT_EQ(counter.count(request), std::ssize(tokenizer->encode(request.prompt, true)));
  request.max_tokens = 2;
  EXPECT_EQ(counter.count(request), std::nullopt);
  done.acquire();
  EXPECT_EQ(counter.count(request), 2);
  request.model_folder = "/none";
  EXPECT_EQ(counter.count(request), std::nullopt);
  done.acquire();
  EXPECT_EQ(counter.count(request), std::nullopt);
  request.options.prompt_ids = {1, 2, 3};
  request.max_tokens.reset();
  EXPECT_EQ(counter.count(request), 3);
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

TEST(MakeLiveCapture, FailsWithoutABlockWhereTheModelCannotBeLoaded) {
  LiveRequest request;
  request.model_folder = "/no/such/model";
  request.prompt = "hello";
  request.options.policies = {{"none", {}}};
  LiveRunner runner(make_live_capture(request), {});
  ASSERT_TRUE(eventually([&] { return runner.status().stage == LiveStage::kFailed; }));
  EXPECT_NE(runner.status().message.find("/no/such/model"), std::string::npos) << runner.status().message;
  EXPECT_TRUE(runner.recording()->info()->runs.empty());
}

TEST(MakeLiveCapture, ReplacesNothingOfItsModel) {
  const ScratchFolder folder;
  const std::filesystem::path config = folder.file("config.json");
  std::ofstream(config) << "{}";
  LiveRequest request;
  request.model_folder = folder.path();
  request.options.policies = {{"none", {}}};
  request.prompt = "hello";
  request.out = config;
  request.replace = true;
  LiveRunner runner(make_live_capture(request), {});
  ASSERT_TRUE(eventually([&] { return runner.status().stage == LiveStage::kFailed; }));
  EXPECT_NE(runner.status().message.find("a file that is read"), std::string::npos)
      << runner.status().message;
  EXPECT_EQ(read_file(config), "{}");
}

TEST(MakeLiveCapture, FailsNamingAPromptFileThatIsNoText) {
  const ScratchFolder folder;
  LiveRequest request;
  request.model_folder = KEYSCOPE_SOURCE_DIR "/assets/demo_model";
  request.options.policies = {{"none", {}}};
  request.prompt_file = folder.file("prompt.txt");
  {
    LiveRunner gone(make_live_capture(request), {});
    ASSERT_TRUE(eventually([&] { return gone.status().stage == LiveStage::kFailed; }));
    EXPECT_NE(gone.status().message.find("prompt.txt"), std::string::npos) << gone.status().message;
  }
  std::ofstream(request.prompt_file, std::ios::binary) << "bytes \xff\xfe";
  LiveRunner foreign(make_live_capture(request), {});
  ASSERT_TRUE(eventually([&] { return foreign.status().stage == LiveStage::kFailed; }));
  EXPECT_NE(foreign.status().message.find("UTF-8"), std::string::npos) << foreign.status().message;
}

TEST(KnownAnswer, StandsInTheListBesideThePrompt) {
  const ScratchFolder folder;
  EXPECT_EQ(known_answer(folder.file("a.txt")), "");
  std::ofstream(folder.file("prompts.json")) << R"([{"file": "a.txt", "expected": "2645"}])";
  EXPECT_EQ(known_answer(folder.file("a.txt")), "2645");
  EXPECT_EQ(known_answer(folder.file("b.txt")), "");
  std::ofstream(folder.file("prompts.json")) << "no list";
  EXPECT_EQ(known_answer(folder.file("a.txt")), "");
  EXPECT_EQ(known_answer(""), "");
}

TEST(ModelOf, IsReadOffTheCommand) {
  recording::RecordingInfo info;
  EXPECT_EQ(model_of(info), "");
  info.provenance.command = "keyscope capture --model assets/demo_model --policy none";
  EXPECT_EQ(model_of(info), "assets/demo_model");
  for (const std::string name : {"a model", "it's", "plain"}) {
    info.provenance.command = quote_words({"keyscope", "capture", "--model", name, "--out", "x.h5"});
    EXPECT_EQ(model_of(info), name);
  }
}

TEST(DemoRequest, CanBeRun) {
  const LiveRequest demo = demo_request();
  EXPECT_EQ(check_live(demo).first(), "");
  EXPECT_EQ(demo.options.answer, "8849914");
}

}  // namespace
}  // namespace keyscope::session
