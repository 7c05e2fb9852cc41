#include "capture/tokenizer/text_trie.hpp"

#include <gtest/gtest.h>

namespace keyscope::tokenizer {
namespace {

TextTrie trie_of(std::initializer_list<std::string_view> texts) {
  TextTrie trie;
  std::int64_t value = 0;
  for (const auto text : texts) trie.add(text, value++);
  return trie;
}

void expect_match(const TextTrie::Match& match, std::size_t begin, std::size_t end, std::int64_t value) {
  EXPECT_EQ(match.begin, begin);
  EXPECT_EQ(match.end, end);
  EXPECT_EQ(match.value, value);
}

TEST(TextTrie, LeftmostThenLongest) {
  const TextTrie trie = trie_of({"b", "abcd", "ab", "abc", "bcde"});
  expect_match(trie.find("xabce", 0), 1, 4, 3);  // not ab, and not bcde that starts later
  expect_match(trie.find("xabcd", 0), 1, 5, 1);
  expect_match(trie.find("xbcdx", 0), 1, 2, 0);  // bcde breaks off after its prefix b matched
  expect_match(trie.find("abab", 1), 1, 2, 0);
}

TEST(TextTrie, FindsNothing) {
  EXPECT_EQ(TextTrie().find("abc", 0).value, TextTrie::kNone);
  EXPECT_TRUE(TextTrie().empty());
  EXPECT_EQ(trie_of({"abc"}).find("ababab", 0).value, TextTrie::kNone);
  EXPECT_EQ(trie_of({"abc"}).find("", 0).value, TextTrie::kNone);
  EXPECT_EQ(trie_of({"abc"}).find("abc", 3).value, TextTrie::kNone);
}

TEST(TextTrie, FirstValueStays) { expect_match(trie_of({"é", "é"}).find("xé", 0), 1, 3, 0); }

}  // namespace
}  // namespace keyscope::tokenizer
