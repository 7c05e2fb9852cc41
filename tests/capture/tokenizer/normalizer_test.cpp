#include "capture/tokenizer/normalizer.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::tokenizer {
namespace {

using nlohmann::json;

std::string normalize(const json& description, std::string text) {
  read_normalizer(JsonField(description, "tokenizer.json", "normalizer"))->normalize(text);
  return text;
}

TEST(Normalizer, UnicodeForms) {
  const std::string text = "e\u0301 \u00e9 \uFB01";
  EXPECT_EQ(normalize({{"type", "NFC"}}, text), "\u00e9 \u00e9 \uFB01");
  EXPECT_EQ(normalize({{"type", "NFD"}}, text), "e\u0301 e\u0301 \uFB01");
  EXPECT_EQ(normalize({{"type", "NFKC"}}, text), "\u00e9 \u00e9 fi");
  EXPECT_EQ(normalize({{"type", "NFKD"}}, text), "e\u0301 e\u0301 fi");
  EXPECT_EQ(normalize({{"type", "NFC"}}, ""), "");
}

TEST(Normalizer, PrependLeavesEmptyTextAlone) {
  EXPECT_EQ(normalize({{"type", "Prepend"}, {"prepend", "▁"}}, "a"), "▁a");
  EXPECT_EQ(normalize({{"type", "Prepend"}, {"prepend", "▁"}}, ""), "");
}

TEST(Normalizer, Replace) {
  EXPECT_EQ(normalize({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}, " a  b"),
            "▁a▁▁b");
  EXPECT_EQ(normalize({{"type", "Replace"}, {"pattern", {{"Regex", "x+"}}}, {"content", "y"}}, "axxb"),
            "ayb");
  EXPECT_EQ(normalize({{"type", "Replace"}, {"pattern", {{"String", "aa"}}}, {"content", ""}}, "aaab"), "ab");
}

// Expected values: tokenizers 0.23.3.
TEST(Normalizer, StripKnowsUnicodeWhiteSpace) {
  const json both{{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
  EXPECT_EQ(normalize(both, " \u0085\u200ba \u3000"), "\u200ba");
  EXPECT_EQ(normalize(both, " \t\n"), "");
  EXPECT_EQ(normalize({{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}}, " a b "), "a b ");
  EXPECT_EQ(normalize({{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}}, " a b "), " a b");
  EXPECT_EQ(normalize({{"type", "Strip"}, {"strip_left", false}, {"strip_right", false}}, " a "), " a ");
}

TEST(Normalizer, CaseAndAccents) {
  EXPECT_EQ(normalize({{"type", "Lowercase"}}, "ΑΣ İẞ"), "ασ i\u0307ß");
  EXPECT_EQ(normalize({{"type", "StripAccents"}}, "e\u0301\u00e9\u0903\u0488"), "e\u00e9");
}

TEST(Normalizer, SequenceGoesInOrder) {
  const json llama2{{"type", "Sequence"},
                    {"normalizers",
                     {{{"type", "Prepend"}, {"prepend", "▁"}},
                      {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}};
  EXPECT_EQ(normalize(llama2, "Hello world"), "▁Hello▁world");
}

TEST(Normalizer, NoneAndOthers) {
  EXPECT_EQ(read_normalizer(std::nullopt), nullptr);
  try {
    normalize({{"type", "Sequence"}, {"normalizers", {{{"type", "Precompiled"}}}}}, "");
    FAIL() << "expected FileError";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("tokenizer.json: normalizer.normalizers[0].type: found \"Precompiled\""));
  }
}

}  // namespace
}  // namespace keyscope::tokenizer
