#include "capture/tokenizer/split_behavior.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::tokenizer {
namespace {

using testing::ElementsAre;

std::vector<std::string> split(SplitBehavior behavior, bool invert, const std::string& text = "--a-b--c-") {
  std::vector<std::string> pieces;
  split_at(*literal_pattern("-"), behavior, invert, text,
           [&](std::size_t begin, std::size_t end) { pieces.push_back(text.substr(begin, end - begin)); });
  return pieces;
}

// Expected values: tokenizers 0.23.3, pre_tokenizers.Split("-", behavior, invert).
TEST(SplitBehavior, AsTheTokenizersLibrary) {
  EXPECT_THAT(split(SplitBehavior::kIsolated, false),
              ElementsAre("-", "-", "a", "-", "b", "-", "-", "c", "-"));
  EXPECT_THAT(split(SplitBehavior::kIsolated, true),
              ElementsAre("-", "-", "a", "-", "b", "-", "-", "c", "-"));
  EXPECT_THAT(split(SplitBehavior::kRemoved, false), ElementsAre("a", "b", "c"));
  EXPECT_THAT(split(SplitBehavior::kRemoved, true), ElementsAre("-", "-", "-", "-", "-", "-"));
  EXPECT_THAT(split(SplitBehavior::kMergedWithPrevious, false), ElementsAre("-", "-", "a-", "b-", "-", "c-"));
  EXPECT_THAT(split(SplitBehavior::kMergedWithPrevious, true), ElementsAre("-", "-a", "-b", "-", "-c", "-"));
  EXPECT_THAT(split(SplitBehavior::kMergedWithNext, false), ElementsAre("-", "-a", "-b", "-", "-c", "-"));
  EXPECT_THAT(split(SplitBehavior::kMergedWithNext, true), ElementsAre("-", "-", "a-", "b-", "-", "c-"));
  EXPECT_THAT(split(SplitBehavior::kContiguous, false), ElementsAre("--", "a", "-", "b", "--", "c", "-"));
  EXPECT_THAT(split(SplitBehavior::kContiguous, true), ElementsAre("--", "a", "-", "b", "--", "c", "-"));
}

TEST(SplitBehavior, EmptyTextHasNoPieces) {
  for (const auto behavior : {SplitBehavior::kIsolated, SplitBehavior::kRemoved, SplitBehavior::kContiguous})
    EXPECT_TRUE(split(behavior, false, "").empty());
}

TEST(SplitBehavior, UnknownNameIsRefused) {
  const nlohmann::json name = "isolated";
  EXPECT_THROW(read_split_behavior(JsonField(name, "f.json", "behavior")), FileError);
}

}  // namespace
}  // namespace keyscope::tokenizer
