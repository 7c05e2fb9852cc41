#include "app/results/prompts.hpp"

#include <fstream>
#include <numeric>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/results/html_page.hpp"
#include "base/errors.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::results {

namespace {

using ::testing::HasSubstr;

const std::vector<std::int64_t> kLengths{100, 200, 400, 800};

TEST(PromptLengths, ShortPromptsAreKeptWhole) {
  EXPECT_DOUBLE_EQ(mean_compression_ratio(kLengths, 200), (1 + 1 + 0.5 + 0.25) / 4);
  EXPECT_DOUBLE_EQ(mean_compression_ratio(kLengths, 800), 1);
  EXPECT_DOUBLE_EQ(mean_compression_ratio(kLengths, 1), (0.01 + 0.005 + 0.0025 + 0.00125) / 4);
}

TEST(PromptLengths, NothingToAverageIsRefused) {
  EXPECT_THROW(mean_compression_ratio({}, 10), InvalidInput);
  EXPECT_THROW(mean_compression_ratio(kLengths, 0), InvalidInput);
  EXPECT_THROW(bin_lengths(std::vector<std::int64_t>{3, 0}), InvalidInput);
}

TEST(PromptLengths, BinsAreRoundAndHoldEveryPrompt) {
  const auto bins = bin_lengths(kLengths);
  EXPECT_EQ(bins.front().first, 100);
  EXPECT_EQ(bins.front().end, 150) << "20 would be 36 bins";
  EXPECT_EQ(bins.size(), 15U);
  EXPECT_EQ(bins.back().first, 800);
  for (const LengthBin& bin : bins)
    EXPECT_EQ(bin.n_prompts, bin.first == 100 || bin.first == 200 || bin.first == 400 || bin.first == 800);
  const auto one = bin_lengths(std::vector<std::int64_t>{7, 7});
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].first, 7);
  EXPECT_EQ(one[0].n_prompts, 2);
}

TEST(PromptLengths, AreSummarised) {
  const PromptLengths measured = measure_lengths(kLengths, {200, 800});
  EXPECT_DOUBLE_EQ(measured.mean, 375);
  EXPECT_DOUBLE_EQ(measured.median, 300);
  EXPECT_DOUBLE_EQ(measured.p95, 740) << "NumPy: percentile([100, 200, 400, 800], 95)";
  EXPECT_EQ(measured.least, 100);
  EXPECT_EQ(measured.most, 800);
  EXPECT_DOUBLE_EQ(measured.ratios[0], 0.6875);
}

TEST(PromptLengths, TheFigureMarksTheBudgets) {
  const figures::Figure figure = prompt_lengths_figure(measure_lengths(kLengths, {200}), "book.jsonl");
  ASSERT_EQ(figure.panels.size(), 2U);
  EXPECT_FLOAT_EQ(figure.panels[1].points[0].y[0], 0.6875F);
  EXPECT_FLOAT_EQ(figure.panels[1].lines[0].x.back(), 800);
  EXPECT_FLOAT_EQ(figure.panels[1].lines[0].y.back(), 1);
  const auto& heights = figure.panels[0].lines[0].y;
  EXPECT_FLOAT_EQ(std::accumulate(heights.begin(), heights.end(), 0.0F), 2 * 4) << "both ends of each bar";
  EXPECT_THAT(figure.caption, HasSubstr("book.jsonl, 4 prompts"));
  EXPECT_EQ(prompt_lengths_figure(measure_lengths(kLengths, {}), "book.jsonl").panels.size(), 1U);
}

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class PromptsFile : public ::testing::Test {
 protected:
  PromptsFile() {
    model_.vocab_size = 3072;
    model_.context_length = 12;
  }

  std::vector<Prompt> read(const std::string& text, std::optional<std::int64_t> max_tokens = std::nullopt) {
    std::ofstream(folder_.file("p.jsonl"), std::ios::binary) << text;
    return read_prompts(folder_.file("p.jsonl"), model_, tokenizer_, max_tokens);
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
  tokenizer::FolderTokenizer tokenizer_{KEYSCOPE_SOURCE_DIR "/assets/demo_model"};
};

TEST_F(PromptsFile, HoldsTextAndIds) {
  const auto prompts = read(
      "{\"prompt\": \"The magic number\", \"name\": \"first\", \"answers\": [1]}\n{\"ids\": [5, 6, 7]}\r\n");
  ASSERT_EQ(prompts.size(), 2u);
  EXPECT_EQ(prompts[0].name, "first");
  EXPECT_EQ(prompts[0].ids, tokenizer_.get()->encode("The magic number", true));
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
  expect("{\"ids\": \"1 2\"}", "\"ids\": found \"1 2\", expected a JSON array");
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
  EXPECT_THROW(read_prompts(folder_.file("none.jsonl"), model_, {}, std::nullopt), FileError);
  EXPECT_THROW(read_prompts(folder_.path(), model_, {}, std::nullopt), FileError);
}

TEST_F(PromptsFile, WithoutATokenizerIdsStillWork) {
  tokenizer_ = {};
  EXPECT_THAT(read("{\"ids\": [1, 2]}").front().beginning, IsEmpty());
  EXPECT_THAT(error_of("{\"prompt\": \"a\"}"), HasSubstr("tokenizer.json"));
}

// RFC 4648, section 10.
TEST(HtmlText, DataUrlsAreBase64) {
  EXPECT_EQ(results::data_url("text/plain", ""), "data:text/plain;base64,");
  EXPECT_EQ(results::data_url("text/plain", "f"), "data:text/plain;base64,Zg==");
  EXPECT_EQ(results::data_url("text/plain", "fooba"), "data:text/plain;base64,Zm9vYmE=");
  EXPECT_EQ(results::data_url("text/plain", "foobar"), "data:text/plain;base64,Zm9vYmFy");
}

}  // namespace

}  // namespace keyscope::results
