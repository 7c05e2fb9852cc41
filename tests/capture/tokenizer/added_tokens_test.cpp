#include "capture/tokenizer/added_tokens.hpp"

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"

namespace keyscope::tokenizer {

namespace {

using nlohmann::json;
using testing::HasSubstr;

json token(int id, const char* content, json options = json::object()) {
  options["id"] = id;
  options["content"] = content;
  if (!options.contains("normalized")) options["normalized"] = false;
  return options;
}

AddedTokens make_tokens(const json& list, const Vocabulary& vocabulary = {}) {
  return {JsonField(list, "tokenizer.json", "added_tokens"), vocabulary, nullptr};
}

// Tokens as their ids in brackets, text between them as it is.
std::string with_ids(const json& list, const std::string& text) {
  std::string result;
  make_tokens(list).split_raw(text, [&](std::optional<std::int32_t> id, std::size_t begin, std::size_t end) {
    result += id ? fmt::format("[{}]", *id) : text.substr(begin, end - begin);
  });
  return result;
}

TEST(AddedTokens, FoundInTheText) {
  const json list{token(5, "<s>"), token(6, "<s>x")};
  EXPECT_EQ(with_ids(list, "a<s>b<s>x"), "a[5]b[6]");
  EXPECT_EQ(with_ids(list, "<s><s>"), "[5][5]");
  EXPECT_EQ(with_ids(list, "<s"), "<s");
  EXPECT_EQ(with_ids(list, ""), "");
}

TEST(AddedTokens, WhiteSpaceGoesWithThem) {
  const json list{token(1, "<l>", {{"lstrip", true}}), token(2, "<r>", {{"rstrip", true}})};
  EXPECT_EQ(with_ids(list, "a \u00a0<l> b"), "a[1] b");
  EXPECT_EQ(with_ids(list, "a <r> \n b"), "a [2]b");
  EXPECT_EQ(with_ids(list, "<r>  <l>"), "[2][1]");
  EXPECT_EQ(with_ids(list, "  <l>"), "[1]");
  EXPECT_EQ(with_ids(list, "<r>  "), "[2]");
}

TEST(AddedTokens, SingleWords) {
  const json list = json::array({token(1, "word", {{"single_word", true}})});
  EXPECT_EQ(with_ids(list, "word words sword é_word word, -word"), "[1] words sword é_word [1], -[1]");
  EXPECT_EQ(with_ids(list, "éword wordé"), "éword wordé");
}

TEST(AddedTokens, NormalizedOnesAreLookedForInNormalizedText) {
  const json description{{"type", "Lowercase"}};
  const auto lowercase = read_normalizer(JsonField(description, "tokenizer.json", "normalizer"));
  const json list = json::array({token(3, "ABC", {{"normalized", true}})});
  const AddedTokens tokens(JsonField(list, "tokenizer.json", "added_tokens"), Vocabulary(), lowercase.get());
  int found = 0;
  tokens.split_raw("ABC",
                   [&](std::optional<std::int32_t> id, std::size_t, std::size_t) { found += id ? 1 : 0; });
  EXPECT_EQ(found, 0);
  tokens.split_normalized(
      "xabc", [&](std::optional<std::int32_t> id, std::size_t, std::size_t) { found += id ? 1 : 0; });
  EXPECT_EQ(found, 1);
}

TEST(AddedTokens, LookUp) {
  const auto tokens = make_tokens({token(5, "<s>", {{"special", true}}), token(9, "x")});
  ASSERT_NE(tokens.find(5), nullptr);
  EXPECT_TRUE(tokens.find(5)->special);
  EXPECT_EQ(tokens.find("x")->id, 9);
  EXPECT_EQ(tokens.find(6), nullptr);
  EXPECT_EQ(tokens.find("<s"), nullptr);
  EXPECT_EQ(tokens.largest_id(), 9);
  EXPECT_EQ(make_tokens(json::array()).largest_id(), -1);
}

std::string list_error(const json& list) {
  Vocabulary vocabulary;
  vocabulary.add("a", 0);
  vocabulary.add("b", 1);
  try {
    make_tokens(list, vocabulary);
  } catch (const FileError& error) {
    return error.what();
  }
  return "no error";
}

TEST(AddedTokens, IdsAreChecked) {
  EXPECT_EQ(list_error(json::array({token(0, "a"), token(2, "c"), token(2, "c")})), "no error");
  EXPECT_THAT(list_error(json::array({token(1, "a")})),
              HasSubstr("added_tokens[0].id: found 1 for \"a\", expected 0"));
  EXPECT_THAT(list_error(json::array({token(1, "c")})), HasSubstr("an id that is not \"b\"'s"));
  EXPECT_THAT(list_error(json::array({token(2, "c"), token(2, "d")})),
              HasSubstr("an id that is not \"c\"'s"));
  EXPECT_THAT(list_error(json::array({token(2, "c"), token(3, "c")})), HasSubstr("its id above"));
  EXPECT_THAT(list_error(json::array({token(-1, "c")})), HasSubstr("found -1, expected an integer from 0"));
  EXPECT_THAT(list_error(json::array({token(INT32_MAX, "c")})), HasSubstr("found 2147483647"));
  EXPECT_THAT(list_error(json::array({{{"content", "c"}}})), HasSubstr("added_tokens[0]: found no \"id\""));
  EXPECT_THAT(list_error(json::object()), HasSubstr("added_tokens: found an object, expected an array"));
}

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
