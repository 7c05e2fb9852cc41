#include "capture/model/policy_file.hpp"

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/policies/registry.hpp"
#include "base/errors.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::capture {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Two layers of two KV heads of two channels.
class PolicyFile : public ::testing::Test {
 protected:
  PolicyFile() {
    config_.n_layers = config_.n_kv_heads = config_.head_dim = 2;
    config_.n_heads = 4;
  }

  analysis::PolicySpec spec(const std::string& text, const std::string& policy = "qfilters") const {
    const auto path = folder_.file("file.json");
    std::ofstream(path) << text;
    return {policy, {{"file", path.string()}}};
  }
  std::vector<double> scores(const analysis::Policy& policy, int layer, int kv_head) const {
    RowMatrixF keys(2, 2);
    keys << 1, 0, 0, 1;
    const std::vector<std::int32_t> positions{0, 1};
    std::vector<double> scores(2);
    policy.score({.keys = keys, .values = keys, .positions = positions, .layer = layer, .kv_head = kv_head},
                 scores);
    return scores;
  }
  void expect_refused(const std::string& text, const std::string& where, const std::string& why) const {
    const auto asked = spec(text);
    EXPECT_THAT([&] { policy_for(asked, 0, config_); },
                ThrowsMessage<FileError>(AllOf(HasSubstr("file.json: " + where), HasSubstr(why))))
        << text;
  }

  test::ScratchFolder folder_;
  ModelConfig config_;
};

TEST_F(PolicyFile, FiltersGoToTheirHeads) {
  const auto policy = policy_for(spec("[[[1, 2], [3, 4]], [[5, 6], [7, 8.5]]]"), 0, config_);
  EXPECT_THAT(scores(*policy, 0, 1), testing::ElementsAre(-3, -4));
  EXPECT_THAT(scores(*policy, 1, 1), testing::ElementsAre(-7, -8.5));
}

TEST_F(PolicyFile, OthersReadNone) {
  EXPECT_EQ(policy_for({"none", {}}, 0, config_), nullptr);
  EXPECT_NE(policy_for({"keydiff", {}}, 0, config_), nullptr);
}

TEST_F(PolicyFile, RefusalsNameEntryFoundAndExpected) {
  expect_refused("[[[1, 2], [3, 4]]]", "layers: found 1 entries", "expected 2, one per layer");
  expect_refused("[[[1, 2]], [[5, 6], [7, 8]]]", "layers[0]: found 1 entries", "2, one per KV head");
  expect_refused("[[[1, 2], [3, 4]], [[5, 6], [7]]]", "layers[1][1]: found 1 entries",
                 "2, one per channel of a key");
  expect_refused("[[[1, 2], [3, 4]], [[5, 6], [7, \"8\"]]]", "layers[1][1][1]: found", "expected a number");
  expect_refused("[[[1, 2], [3, 4]], [[5, 6], [7, 1e39]]]", "layers[1][1][1]: found",
                 "a number that float32 holds");
  expect_refused("[[[1, 2], [3, 4]], []]", "layers[1]: found 0 entries", "2, one per KV head");
  expect_refused("{}", "layers: found an object", "expected an array");
  expect_refused("[[[1, 2]", "a JSON array with an entry per layer is expected", "");
  EXPECT_THAT(
      [&] {
        policy_for({"qfilters", {{"file", "/none.json"}}}, 0, config_);
      },
      ThrowsMessage<FileError>(HasSubstr("/none.json")));
  EXPECT_THAT(
      [&] {
        policy_for({"qfilters", {}}, 0, config_);
      },
      ThrowsMessage<UsageError>(HasSubstr("policy qfilters needs file=PATH")));
}

TEST_F(PolicyFile, LayersWithoutKeysMayHaveNoEntry) {
  config_.layer_attends = {true, false};
  const auto policy = policy_for(spec("[[[1, 2], [3, 4]], []]"), 0, config_);
  EXPECT_THAT(scores(*policy, 0, 0), testing::ElementsAre(-1, -2));
  EXPECT_THAT([&] { scores(*policy, 1, 0); },
              ThrowsMessage<InvalidInput>(HasSubstr("no filter of 2 numbers for layer 1, KV head 0")));
}

TEST_F(PolicyFile, RecordingsAskForTheLayersThatTheyHold) {
  recording::RecordingInfo info;
  info.model.n_layers = info.model.n_kv_heads = info.model.head_dim = 2;
  info.model.n_heads = 4;
  info.layers = {0};
  EXPECT_THAT(scores(*policy_for(spec("[[[1, 2], [3, 4]], []]"), 0, info), 0, 1),
              testing::ElementsAre(-3, -4));
  info.layers = {0, 1};
  const auto asked = spec("[[[1, 2], [3, 4]], []]");
  EXPECT_THAT([&] { policy_for(asked, 0, info); },
              ThrowsMessage<FileError>(HasSubstr("layers[1]: found 0 entries")));
}

// Without what its file says, a filter is nothing.
TEST_F(PolicyFile, ScoresNothingUnread) {
  const auto made = spec("[]");
  const auto policy = analysis::make_policy(made, 0);
  EXPECT_THROW(scores(*policy, 0, 0), InvalidInput);
}

}  // namespace
}  // namespace keyscope::capture
