#include "app/results/prompts.hpp"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::validation {
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

}  // namespace
}  // namespace keyscope::validation
