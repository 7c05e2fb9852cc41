#include "app/validation/prompts_file.hpp"

#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/scratch_folder.hpp"

namespace keyscope::validation {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PromptsFile : public ::testing::Test {
 protected:
  PromptsFile() {
    model_.vocab_size = 3072;
    model_.context_length = 12;
  }

  std::vector<Prompt> read(const std::string& text, std::optional<std::int64_t> max_tokens = std::nullopt) {
    std::ofstream(folder_.file("p.jsonl"), std::ios::binary) << text;
    return read_prompts(folder_.file("p.jsonl"), model_, tokenizer_.get(), max_tokens);
  }

  std::string error_of(const std::string& text) {
    try {
      read(text);
    } catch (const FileError& error) {
      return error.what();
    }
    return "no error";
  }

  test::ScratchFolder folder_;
  capture::ModelConfig model_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_ =
      tokenizer::Tokenizer::load(KEYSCOPE_SOURCE_DIR "/assets/demo_model");
};

TEST_F(PromptsFile, HoldsTextAndIds) {
  const auto prompts = read(
      "{\"prompt\": \"The magic number\", \"name\": \"first\", \"answers\": [1]}\n{\"ids\": [5, 6, 7]}\r\n");
  ASSERT_EQ(prompts.size(), 2u);
  EXPECT_EQ(prompts[0].name, "first");
  EXPECT_EQ(prompts[0].ids, tokenizer_->encode("The magic number", true));
  EXPECT_EQ(prompts[0].beginning, "The magic number");
  EXPECT_EQ(prompts[1].name, "line 2");
  EXPECT_EQ(prompts[1].line, 2);
  EXPECT_THAT(prompts[1].ids, ElementsAre(5, 6, 7));
}

TEST_F(PromptsFile, LongPromptsAreCutBeforeTheyAreJudged) {
  const auto prompts = read("{\"ids\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14]}", 4);
  EXPECT_THAT(prompts.front().ids, ElementsAre(1, 2, 3, 4));
}

TEST_F(PromptsFile, BadRowsAreNamed) {
  const std::string good = "{\"ids\": [1, 2]}\n";
  const auto expect = [&](const std::string& row, const std::string& what) {
    EXPECT_THAT(error_of(good + row), AllOf(HasSubstr("p.jsonl, line 2"), HasSubstr(what))) << row;
  };
  expect("not JSON", "line 2");
  expect("[1, 2]", "line 2");
  expect("{\"prompt\": \"cut", "line 2");
  expect("{\"text\": \"a\"}", "neither \"prompt\" nor \"ids\"");
  expect("{\"prompt\": \"a\", \"ids\": [1]}", "both \"prompt\" and \"ids\"");
  expect("{\"prompt\": 3}", "\"prompt\" is number; expected a text");
  expect("{\"prompt\": \"\"}", "\"prompt\" is empty");
  expect("{\"ids\": []}", "empty");
  expect("{\"ids\": \"1 2\"}", "\"ids\" is string");
  expect("{\"ids\": [1, -2]}", "entry 1");
  expect("{\"ids\": [1, 2.5]}", "entry 1");
  expect("{\"ids\": [99999999999]}", "entry 0");
  expect("{\"ids\": [1, 3072]}", "vocabulary has ids 0 to 3071");
  expect("{\"ids\": [1,2,3,4,5,6,7,8,9,10,11,12,13]}", "13 tokens, and the model's context is 12");
  expect("{\"ids\": [3], \"name\": 7}", "\"name\" is number");
  expect("\n{\"ids\": [3]}\n", "the line is empty");
  expect(good, "the same tokens as on line 1");
}

TEST_F(PromptsFile, AFileWithoutPromptsIsRefused) {
  EXPECT_THAT(error_of(""), HasSubstr("there is no prompt"));
  EXPECT_THROW(read_prompts(folder_.file("none.jsonl"), model_, nullptr, std::nullopt), FileError);
  EXPECT_THROW(read_prompts(folder_.path(), model_, nullptr, std::nullopt), FileError);
}

TEST_F(PromptsFile, WithoutATokenizerIdsStillWork) {
  tokenizer_ = nullptr;
  EXPECT_THAT(read("{\"ids\": [1, 2]}").front().beginning, IsEmpty());
  EXPECT_THAT(error_of("{\"prompt\": \"a\"}"), HasSubstr("tokenizer.json"));
}

}  // namespace
}  // namespace keyscope::validation
