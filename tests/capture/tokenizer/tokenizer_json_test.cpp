#include "capture/tokenizer/tokenizer_json.hpp"

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "base/json.hpp"

namespace keyscope::tokenizer {

namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(TokenizerJson, TablesApartFromTheDocument) {
  const auto parts = parse_tokenizer_json(
      R"({"version": "1.0", "model": {"vocab": {"a": 0, "b c": 2, "": 1}, "type": "BPE",
          "merges": ["a b", ["b c", " d"]], "vocab_size": 3}, "x": [{"vocab": {"y": "z"}}, null, 1.5, -3, true]})",
      "f.json");
  EXPECT_EQ(
      json_text(parts.document),
      R"({"model":{"type":"BPE","vocab_size":3},"version":"1.0","x":[{"vocab":{"y":"z"}},null,1.5,-3,true]})");
  EXPECT_EQ(parts.vocabulary.size(), 3);
  EXPECT_EQ(parts.vocabulary.find("b c"), 2);
  ASSERT_EQ(parts.merges.size(), 2U);
  EXPECT_EQ(parts.merges[0].left, "a");
  EXPECT_EQ(parts.merges[1].left, "b c");
  EXPECT_EQ(parts.merges[1].right, " d");
  EXPECT_TRUE(parts.has_vocabulary && parts.has_merges);
}

TEST(TokenizerJson, OnlyTheModelsFieldsAreTables) {
  const auto parts = parse_tokenizer_json(
      R"({"vocab": {"a": 0}, "x": {"vocab": {"a": 0}}, "model": {"y": {"vocab": {}}}})", "f");
  EXPECT_FALSE(parts.has_vocabulary);
  EXPECT_EQ(parts.document["x"]["vocab"]["a"], 0);
}

std::string error_of(const std::string& text) {
  try {
    parse_tokenizer_json(text, "f.json");
  } catch (const FileError& error) {
    return error.what();
  }
  return "no error";
}

std::string vocabulary_error(const std::string& vocabulary) {
  return error_of(R"({"model": {"vocab": )" + vocabulary + "}}");
}
std::string merges_error(const std::string& merges) {
  return error_of(R"({"model": {"merges": )" + merges + "}}");
}

TEST(TokenizerJson, NoJson) {
  for (const auto* text :
       {"", " ", "x", "{", "[1,", R"({"a": })", "{\"a\": \"\xFF\"}", R"({"a": "\ud800"})", "{} x"})
    EXPECT_THAT(error_of(text), AllOf(HasSubstr("f.json: found no valid JSON at byte"))) << text;
  EXPECT_EQ(error_of("[]"), "no error");  // valid so far; the fields are missing
  EXPECT_EQ(error_of("\"text\""), "no error");
}

TEST(TokenizerJson, NestedTooDeep) {
  EXPECT_THAT(error_of(std::string(1'000'000, '[')), HasSubstr("nested deeper than 64"));
  EXPECT_THAT(error_of(std::string(60, '[') + std::string(60, ']')), "no error");
}

TEST(TokenizerJson, VocabulariesThatAreNone) {
  EXPECT_THAT(vocabulary_error(R"({"a": -1})"),
              HasSubstr("model.vocab[\"a\"]: found -1, expected an id from 0"));
  EXPECT_THAT(vocabulary_error(R"({"a": 1.5})"), HasSubstr("found 1.5"));
  EXPECT_THAT(vocabulary_error(R"({"a": 4194304})"), HasSubstr("found 4194304"));
  EXPECT_THAT(vocabulary_error(R"({"a": 18446744073709551615})"), HasSubstr("found 18446744073709551615"));
  EXPECT_THAT(vocabulary_error(R"({"a": 1e30})"), HasSubstr("found 1e30"));
  EXPECT_THAT(vocabulary_error(R"({"a": "1"})"), HasSubstr("found a string"));
  EXPECT_THAT(vocabulary_error(R"({"a": null})"), HasSubstr("found null"));
  EXPECT_THAT(vocabulary_error(R"({"a": {}})"), HasSubstr("found an object"));
  EXPECT_THAT(vocabulary_error(R"({"a": []})"), HasSubstr("found an array"));
  EXPECT_THAT(vocabulary_error(R"({"a": 1, "b": 1})"),
              HasSubstr("model.vocab[\"b\"]: found 1, which is also \"a\""));
  EXPECT_THAT(vocabulary_error(R"({"a": 1, "a": 2})"), HasSubstr("found the token a second time"));
  EXPECT_THAT(vocabulary_error(R"({"a": 1}, "vocab": {})"), HasSubstr("model.vocab: found it twice"));
}

TEST(TokenizerJson, MergesThatAreNone) {
  EXPECT_THAT(merges_error(R"(["ab"])"),
              HasSubstr("model.merges[0]: found the string \"ab\", expected two tokens"));
  EXPECT_THAT(merges_error(R"(["a b", "a b c"])"), HasSubstr("model.merges[1]"));
  EXPECT_THAT(merges_error(R"([["a"]])"), HasSubstr("found an array of 1"));
  EXPECT_THAT(merges_error(R"([["a", "b", "c"]])"), HasSubstr("an array of more than two"));
  EXPECT_THAT(merges_error(R"([["a", 1]])"), HasSubstr("model.merges[0]: found 1"));
  EXPECT_THAT(merges_error(R"([[["a"]]])"), HasSubstr("found an array"));
  EXPECT_THAT(merges_error(R"([{}])"), HasSubstr("found an object"));
  EXPECT_THAT(merges_error(R"([null])"), HasSubstr("found null"));
}

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
