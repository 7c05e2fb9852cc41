#include "app/session/text_search.hpp"

#include <gtest/gtest.h>

namespace keyscope::session {
namespace {

recording::TokenText tokens(const std::vector<std::string>& texts) {
  recording::TokenText text;
  text.offset.push_back(0);
  for (const std::string& token : texts) {
    text.id.push_back(1);
    text.text += token;
    text.offset.push_back(static_cast<std::int64_t>(text.text.size()));
  }
  return text;
}

recording::RecordingInfo info() {
  recording::RecordingInfo info;
  info.prompt = tokens({"The", " mag", "ic", "", " number", " is", " magic"});
  info.runs.resize(2);
  info.runs[1].generated = tokens({" ma", "gic"});
  return info;
}

using Matches = std::vector<TextMatch>;

TEST(FindText, ReachesOverTokens) {
  EXPECT_EQ(find_text(info(), 0, "magic"), (Matches{{1, 2}, {6, 6}}));
  EXPECT_EQ(find_text(info(), 0, "icnum"), Matches{});
  EXPECT_EQ(find_text(info(), 0, "ic num"), (Matches{{2, 4}})) << "a token without text lies between";
}

TEST(FindText, LooksIntoWhatTheRunGenerated) {
  EXPECT_EQ(find_text(info(), 1, "magic"), (Matches{{1, 2}, {6, 6}, {7, 8}}));
  EXPECT_EQ(find_text(info(), 1, "magic ma"), (Matches{{6, 7}}));
}

TEST(FindText, TakesEitherCase) { EXPECT_EQ(find_text(info(), 0, "THE MAGIC"), (Matches{{0, 2}})); }

TEST(FindText, FindsNoOverlaps) {
  auto repeated = info();
  repeated.prompt = tokens({"aaaa", "a"});
  EXPECT_EQ(find_text(repeated, 0, "aa"), (Matches{{0, 0}, {0, 0}}));
}

TEST(FindText, FindsNothingOfNothing) {
  EXPECT_TRUE(find_text(info(), 0, "").empty());
  auto silent = info();
  silent.prompt = {};
  EXPECT_TRUE(find_text(silent, 0, "magic").empty()) << "no text was recorded";
}

}  // namespace
}  // namespace keyscope::session
