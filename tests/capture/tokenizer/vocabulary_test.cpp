#include "capture/tokenizer/vocabulary.hpp"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace keyscope::tokenizer {
namespace {

TEST(Vocabulary, FindsBothWaysThroughManyEntries) {
  Vocabulary vocabulary;
  constexpr std::int32_t kTokens = 20000;
  for (std::int32_t id = 0; id < kTokens; ++id)
    ASSERT_EQ(vocabulary.add(fmt::format("t{}", id * 7919), 3 * id), Vocabulary::Added::kYes);
  for (std::int32_t id = 0; id < kTokens; ++id) {
    const std::string text = fmt::format("t{}", id * 7919);
    ASSERT_EQ(vocabulary.find(text), 3 * id);
    ASSERT_EQ(vocabulary.text(3 * id), text);
  }
  EXPECT_EQ(vocabulary.find("t1"), std::nullopt);
  EXPECT_EQ(vocabulary.size(), kTokens);
  EXPECT_EQ(vocabulary.largest_id(), 3 * (kTokens - 1));
}

TEST(Vocabulary, RefusesWhatIsThere) {
  Vocabulary vocabulary;
  EXPECT_EQ(vocabulary.find("a"), std::nullopt);
  EXPECT_EQ(vocabulary.add("a", 1), Vocabulary::Added::kYes);
  EXPECT_EQ(vocabulary.add("a", 2), Vocabulary::Added::kTextTwice);
  EXPECT_EQ(vocabulary.add("b", 1), Vocabulary::Added::kIdTwice);
  EXPECT_EQ(vocabulary.add("", 0), Vocabulary::Added::kYes);
  EXPECT_EQ(vocabulary.find(""), 0);
  EXPECT_EQ(vocabulary.find("b"), std::nullopt);
}

TEST(Vocabulary, IdsOutsideHaveNoText) {
  Vocabulary vocabulary;
  EXPECT_EQ(vocabulary.largest_id(), -1);
  vocabulary.add("a", 2);
  for (const std::int32_t id : {-1, 0, 1, 3, INT32_MAX, INT32_MIN}) {
    EXPECT_FALSE(vocabulary.contains(id));
    EXPECT_EQ(vocabulary.text(id), "");
  }
}

}  // namespace
}  // namespace keyscope::tokenizer
