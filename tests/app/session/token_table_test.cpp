#include "app/session/token_table.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/session/basis_cache.hpp"
#include "tests/app/session/synthetic_recording.hpp"

namespace keyscope::session {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class TokenTable : public ::testing::Test {
 protected:
  void SetUp() override {
    BasisCache bases;
    points_ = read_head_points(recording_, *info_, {1, 0, 1}, bases.get(recording_, *info_, 0, 1), nullptr);
    tokens_ = token_table(*info_, *points_, 2);
  }

  SyntheticRecording recording_{{.n_tokens = 200, .block_size = 64, .budget = 80}};
  std::shared_ptr<const recording::RecordingInfo> info_ = recording_.info();
  std::shared_ptr<const HeadPoints> points_;
  std::vector<TokenFacts> tokens_;
};

TEST_F(TokenTable, HoldsWhatWasSeen) {
  ASSERT_EQ(tokens_.size(), 192u);
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::int32_t gone = points_->trace.evicted_at[i];
    EXPECT_EQ(tokens_[i].position, static_cast<std::int32_t>(i));
    EXPECT_EQ(tokens_[i].retained, gone < 0 || gone > 2);
  }
}

TEST_F(TokenTable, IsTheSameAsCsvAndJson) {
  const std::string csv = tokens_as_csv(*info_, 1, tokens_);
  EXPECT_THAT(csv, StartsWith("position,id,text,"));
  EXPECT_EQ(std::ranges::count(csv, '\r'), 193) << "a line a token, and the names";
  const auto json = nlohmann::json::parse(tokens_as_json(*info_, 1, tokens_, "--run keydiff --block 2"));
  EXPECT_EQ(json.at("selection"), "--run keydiff --block 2");
  ASSERT_EQ(json.at("tokens").size(), 192u);
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const auto& token = json["tokens"][i];
    EXPECT_EQ(token.at("position"), i);
    EXPECT_EQ(token.at("retained"), tokens_[i].retained);
    EXPECT_EQ(token.at("evicted_at").is_null(), !tokens_[i].evicted_at);
    EXPECT_EQ(token.at("score").get<double>(), *tokens_[i].score);
  }
}

TEST_F(TokenTable, QuotesWhatCsvMeansSomethingBy) {
  auto info = *info_;
  info.prompt = {{7, 8}, "a\"b,\n\xff", {0, 5, 6}};
  tokens_.resize(2);
  const std::string csv = tokens_as_csv(info, 1, tokens_);
  EXPECT_THAT(csv, HasSubstr("\"a\"\"b,\n\""));
  EXPECT_THAT(csv, HasSubstr("\"\xEF\xBF\xBD\"")) << "no UTF-8";
  EXPECT_EQ(nlohmann::json::parse(tokens_as_json(info, 1, tokens_, ""))["tokens"][0]["text"], "a\"b,\n");
}

}  // namespace
}  // namespace keyscope::session
