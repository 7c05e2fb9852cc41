#include "app/drawing/view_page.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/figures/figure_builders.hpp"
#include "app/figures/labels.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "tests/support/fake_recording.hpp"

namespace keyscope::figures {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

FakeRecording three_runs(std::int64_t n_tokens = 200) {
  FakeRecording recording(2, 2, 1, 8, n_tokens, 50);
  recording.add_run("none", 0);
  recording.add_run("keydiff", 60);
  recording.add_run("sink", 60);
  recording.fill(1);
  return recording;
}

ViewPage page_of(const FakeRecording& recording, const std::vector<int>& runs) {
  ViewPage page;
  for (const int run : runs) page.runs.push_back({&recording, run});
  return page;
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// What a browser takes for the data: all up to the element's end.
json data_of(const std::string& html) {
  constexpr std::string_view kBegin = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = html.find(kBegin) + kBegin.size();
  return parse_json(html.substr(begin, html.find("</script", begin) - begin));
}

std::string decode(const std::string& base64) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0;
  int n_bits = 0;
  for (const char c : base64) {
    if (c == '=') break;
    bits = bits << 6U | static_cast<unsigned>(kDigits.find(c));
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    bytes.push_back(static_cast<char>(bits >> static_cast<unsigned>(n_bits)));
  }
  return bytes;
}

template <typename T>
std::vector<T> array_of(const json& data, const json& index, const std::string& type) {
  const json& array = data["arrays"].at(index.get<std::size_t>());
  EXPECT_EQ(array["type"], type);
  const std::string bytes = decode(array["base64"]);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<double> steps_of(const json& data, const json& packed) {
  std::vector<double> values;
  for (const std::uint16_t step : array_of<std::uint16_t>(data, packed["array"], "Uint16Array"))
    values.push_back(step == 65535 ? std::nan("")
                                   : packed["low"].get<double>() + step * packed["step"].get<double>());
  return values;
}

TEST(ViewPage, HoldsTheEvictionsOfTheRecording) {
  FakeRecording recording = three_runs();
  const json data = data_of(view_page(page_of(recording, {0, 1, 2})));
  ASSERT_EQ(data["runs"].size(), 3U);
  for (int run = 0; run < 3; ++run) {
    const auto blocks = array_of<std::int16_t>(data, data["runs"][run]["evicted_at"], "Int16Array");
    EXPECT_THAT(blocks, ::testing::ElementsAreArray(recording.evicted_at(run, 0, 0))) << run;
  }
}

TEST(ViewPage, ABlockNumberOfMoreThan16BitsIsKept) {
  FakeRecording recording = three_runs();
  recording.evicted_at(1, 0, 0)[7] = 40'000;
  const json data = data_of(view_page(page_of(recording, {1})));
  EXPECT_EQ(array_of<std::int32_t>(data, data["runs"][0]["evicted_at"], "Int32Array").at(7), 40'000);
}

TEST(ViewPage, HasThePointsAxesAndCaptionOfTheFigure) {
  const FakeRecording recording = three_runs();
  const Figure figure = keyspace_figure(recording, {.runs = {"keydiff"}, .layer = 1});
  const Panel& panel = figure.panels.at(0);
  ViewPage page = page_of(recording, {1});
  page.layer = 1;
  const std::string html = view_page(page);
  EXPECT_THAT(html,
              HasSubstr("<title>Key space of layer 1, KV head 0: fake model, prompt of 200 tokens</title>"));
  const json data = data_of(html);
  EXPECT_EQ(data["title"], figure.title);
  EXPECT_EQ(data["x"]["label"], panel.x.label);
  EXPECT_THAT(figure.caption, HasSubstr(data["axes"].get<std::string>()));
  EXPECT_EQ(data["runs"][0]["note"], "N = 60, B = 50");
  const auto x = steps_of(data, data["runs"][0]["x"]), y = steps_of(data, data["runs"][0]["y"]);
  std::size_t n_points = 0;
  for (const PointSeries& series : panel.points)
    for (std::size_t i = 0; i < series.token.size() && series.id != kTopKeysSeries; ++i, ++n_points) {
      EXPECT_NEAR(x.at(series.token[i]), series.x[i], data["runs"][0]["x"]["step"].get<double>());
      EXPECT_NEAR(y.at(series.token[i]), series.y[i], data["runs"][0]["y"]["step"].get<double>());
    }
  EXPECT_EQ(n_points, x.size());
  EXPECT_EQ(data["looks"]["retained"]["colour"], "#0072B2");
  EXPECT_EQ(data["looks"]["evicted"]["glyph"], "○");
}

// The layer's keys are the same in all runs: they stand in the page once.
TEST(ViewPage, WhatRunsHaveAlikeStandsThereOnce) {
  const FakeRecording recording = three_runs();
  const json data = data_of(view_page(page_of(recording, {0, 1, 2})));
  EXPECT_EQ(data["runs"][0]["x"], data["runs"][2]["x"]);
  EXPECT_NE(data["runs"][1]["evicted_at"], data["runs"][2]["evicted_at"]);
}

TEST(ViewPage, OpensAtTheBlockThatIsAskedForWithTheTokensThatAreSelected) {
  const FakeRecording recording = three_runs();
  ViewPage page = page_of(recording, {1, 2});
  EXPECT_EQ(data_of(view_page(page))["open_at"], 3);
  page.block = 1;
  page.tokens = {4, 9};
  const json data = data_of(view_page(page));
  EXPECT_EQ(data["open_at"], 1);
  EXPECT_THAT(data["selected"], ElementsAre(4, 9));
  EXPECT_THAT(data["runs"][0]["seen"], ElementsAre(50, 100, 150, 200));
  page.block = 4;
  EXPECT_THROW(view_page(page), UsageError);
}

// The one with most blocks leads; the other is shown once it had seen as much.
TEST(ViewPage, RunsOfOtherBlocksGoTogether) {
  FakeRecording recording = three_runs();
  recording::RunInfo& coarse = recording.edit_info().runs[2];
  coarse.plan.block_size = 100;
  coarse.plan.n_prompt_blocks = coarse.blocks_done = 2;
  coarse.block_start = {0, 100};
  ViewPage page = page_of(recording, {2, 1});
  page.block = 0;
  const json data = data_of(view_page(page));
  EXPECT_THAT(data["runs"][0]["blocks"], ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(data["runs"][0]["seen"], ElementsAre(100, 100, 200, 200));
  EXPECT_THAT(data["runs"][1]["seen"], ElementsAre(50, 100, 150, 200));
  EXPECT_EQ(data["open_at"], 1) << "both have seen 100 tokens";
}

TEST(ViewPage, SaysWhatWasReplayedAndThatNothingAttendedThere) {
  FakeRecording recording = three_runs();
  recording.edit_info().runs[1].plan.replayed = true;
  const json data = data_of(view_page(page_of(recording, {0, 1})));
  EXPECT_THAT(data["runs"][1]["note"].get<std::string>(), HasSubstr("replayed on full-cache keys"));
  EXPECT_TRUE(data["runs"][0].contains("per_query"));
  EXPECT_FALSE(data["runs"][1].contains("per_query"));
}

TEST(ViewPage, FetchesNothing) {
  const FakeRecording recording = three_runs();
  const std::string html = view_page(page_of(recording, {0, 1}));
  EXPECT_THAT(html, ::testing::StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(html, ::testing::EndsWith("</html>\n"));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  for (const char* word :
       {"http:", "https:", "src=", "@import", "url(", "<link", "<iframe", "fetch(", "import("})
    EXPECT_THAT(html, Not(HasSubstr(word)));
  EXPECT_THAT(html, Not(HasSubstr("@DATA@")));
  EXPECT_THAT(html, Not(HasSubstr("@TITLE@")));
}

TEST(ViewPage, HostileTextStaysText) {
  FakeRecording recording = three_runs(8);
  recording::RecordingInfo& info = recording.edit_info();
  const std::vector<std::string> tokens{"</script><script>alert(1)</script>",
                                        "<!--",
                                        "\"'`\\",
                                        "\u2028\u2029",
                                        "\xF0\x9F",
                                        std::string("\0\n", 2),
                                        "&lt;@TITLE@@DATA@",
                                        " caf\u00e9"};
  info.prompt.text.clear();
  info.prompt.offset = {0};
  for (const std::string& token : tokens) {
    info.prompt.text += token;
    info.prompt.offset.push_back(static_cast<std::int64_t>(info.prompt.text.size()));
  }
  info.model.name = "</title><script>@DATA@";
  info.runs[1].plan.name = "</script>";
  const std::string html = view_page(page_of(recording, {1}));
  EXPECT_EQ(count(html, "<script"), 2U);
  EXPECT_EQ(count(html, "</script"), 2U);
  EXPECT_EQ(count(html, "</title"), 1U);
  EXPECT_EQ(count(html, "<!--"), 1U) << "the template's own";
  EXPECT_EQ(html.find("\u2028"), std::string::npos);
  const json data = data_of(html);
  ASSERT_EQ(data["texts"].size(), tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(data["texts"][i], text_label(tokens[i])) << i;
  EXPECT_EQ(data["texts"][4], "<F0><9F>");
  EXPECT_EQ(data["runs"][0]["name"], "</script>");
}

TEST(ViewPage, OneThatIsTooLargeToSendIsRefused) {
  FakeRecording recording = three_runs(8);
  recording::RecordingInfo& info = recording.edit_info();
  info.prompt.text.append(kMostPageBytes, 'a');
  info.prompt.offset.back() = static_cast<std::int64_t>(info.prompt.text.size());
  try {
    view_page(page_of(recording, {0}));
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("5.0 MB, and"), HasSubstr("at most 5 MB"), HasSubstr("fewer runs")));
  }
}

TEST(ViewPage, OfARunThatHasJustBegunHasNoTokens) {
  FakeRecording recording = three_runs();
  recording::RunInfo& run = recording.edit_info().runs[1];
  run.blocks_done = run.n_tokens = 0;
  run.block_start.clear();
  const json data = data_of(view_page(page_of(recording, {1})));
  EXPECT_THAT(data["runs"][0]["seen"], ElementsAre(0));
  EXPECT_EQ(data["runs"][0]["n_tokens"], 0);
  const json both = data_of(view_page(page_of(recording, {1, 2})));
  EXPECT_THAT(both["runs"][0]["seen"], ElementsAre(0, 0, 0, 0));
}

TEST(ViewPage, WhatIsNotThereIsSaid) {
  FakeRecording recording = three_runs();
  EXPECT_THROW(view_page({}), UsageError);
  EXPECT_THROW(view_page(page_of(recording, {3})), UsageError);
  ViewPage page = page_of(recording, {1});
  page.layer = 5;
  EXPECT_THROW(view_page(page), UsageError);
  recording.edit_info().keys = false;
  EXPECT_THROW(view_page(page_of(recording, {1})), FileError);
}

TEST(ViewPage, AKeyThatIsNotFiniteHasNoPlace) {
  FakeRecording recording = three_runs();
  recording.keys_of(1, 0, 0)(3, 0) = std::nanf("");
  const json data = data_of(view_page(page_of(recording, {1})));
  const auto x = steps_of(data, data["runs"][0]["x"]);
  EXPECT_TRUE(std::isnan(x.at(3)));
  EXPECT_TRUE(std::isfinite(x.at(4)));
}

}  // namespace
}  // namespace keyscope::figures
