#include "capture/tokenizer/normalizer.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "capture/tokenizer/decoder.hpp"

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
    normalize({{"type", "Sequence"}, {"normalizers", {{{"type", "BertNormalizer"}}}}}, "");
    FAIL() << "expected FileError";
  } catch (const FileError& error) {
    EXPECT_THAT(
        error.what(),
        testing::HasSubstr("tokenizer.json: normalizer.normalizers[0].type: found \"BertNormalizer\""));
  }
}

// A damaged table is refused, or reads nothing that it does not have.
TEST(Normalizer, PrecompiledTablesThatAreDamaged) {
  const json whole = parse_json(read_file(std::filesystem::path(KEYSCOPE_SOURCE_DIR) /
                                          "tests/capture/tokenizer/goldens/unigram.tokenizer.json"));
  const auto table = whole["normalizer"]["normalizers"][1]["precompiled_charsmap"].get<std::string>();
  const auto with = [](const std::string& text) {
    return normalize({{"type", "Precompiled"}, {"precompiled_charsmap", text}}, "a①ﬁ e\u0301…\u3000🙂");
  };
  EXPECT_EQ(with(table), "a1fi \u00e9... 🙂");
  EXPECT_THROW(with(""), FileError);
  EXPECT_THROW(with("no Base64!"), FileError);
  for (std::size_t n = 4; n < table.size(); n += 4) {
    std::string damaged = table;
    damaged[n] = damaged[n] == 'A' ? '/' : 'A';
    for (const std::string& text : {table.substr(0, n), damaged}) try {
        with(text);
      } catch (const FileError&) {
        continue;
      }
  }
}

using testing::ElementsAre;

// Each token's share of the decoded text.
std::vector<std::string> decode(const json& description, const std::vector<std::string>& tokens,
                                bool added = false) {
  DecodedTokens state;
  for (const auto& token : tokens) state.add(token, added);
  const JsonField field(description, "tokenizer.json", "decoder");
  read_decoder(description.is_null() ? std::nullopt : std::optional(field))->decode(state);
  EXPECT_EQ(state.offset.size(), tokens.size() + 1);
  EXPECT_EQ(state.offset.front(), 0);
  EXPECT_EQ(static_cast<std::size_t>(state.offset.back()), state.text.size());
  std::vector<std::string> shares;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    shares.push_back(state.text.substr(state.offset[i], state.offset[i + 1] - state.offset[i]));
  return shares;
}

const json kStrip{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
const json kReplace{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}};
const json kLlama2{{"type", "Sequence"},
                   {"decoders", {kReplace, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}, kStrip}}};

TEST(Decoder, ByteLevelGivesBytes) {
  const json byte_level{{"type", "ByteLevel"}};
  EXPECT_THAT(decode(byte_level, {"Hi", "Ġthere", "Ċ", "ðŁ", "ĻĤ"}),
              ElementsAre("Hi", " there", "\n", "\xF0\x9F", "\x99\x82"));
  EXPECT_THAT(decode(byte_level, {"<｜x｜>", "é"}, true), ElementsAre("<｜x｜>", "é"));  // added tokens
  EXPECT_THAT(decode(byte_level, {"é"}), ElementsAre("\xE9"));
}

TEST(Decoder, Llama2StripsTheFirstSpaceOnly) {
  EXPECT_THAT(decode(kLlama2, {"▁Hello", "▁world"}), ElementsAre("Hello", " world"));
  EXPECT_THAT(decode(kLlama2, {"▁", "▁x"}), ElementsAre("", " x"));
  EXPECT_THAT(decode(kLlama2, {"<s>", "▁Hello"}), ElementsAre("<s>", " Hello"));
  EXPECT_THAT(decode(kLlama2, {"<0xE2>", "<0x96>", "<0x81>", "x"}), ElementsAre("\xE2", "\x96", "\x81", "x"));
  EXPECT_THAT(decode(kLlama2, {}), ElementsAre());
}

TEST(Decoder, ByteFallbackTakesNothingElse) {
  EXPECT_THAT(
      decode({{"type", "ByteFallback"}}, {"<0x41>", "<0xfF>", "<0x1>", "<0xZZ>", "<0x0041>", "x<0x41>"}),
      ElementsAre("A", "\xFF", "<0x1>", "<0xZZ>", "<0x0041>", "x<0x41>"));
}

// Expected values: tokenizers 0.23.3, decoders.Strip(" ", 1, 1).decode([...]) and so on.
TEST(Decoder, StripOfEveryToken) {
  const json strip{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 1}};
  EXPECT_THAT(decode(strip, {" a ", "  b  ", " ", "", "c"}), ElementsAre("a", " b ", "", "", "c"));
}

TEST(Decoder, Metaspace) {
  const json always{{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}};
  EXPECT_THAT(decode(always, {"▁a", "▁b▁", "c"}), ElementsAre("a", " b ", "c"));
  const json never{{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "never"}};
  EXPECT_THAT(decode(never, {"▁a", "▁b"}), ElementsAre(" a", " b"));
  const json legacy{{"type", "Metaspace"}, {"replacement", "▁"}, {"add_prefix_space", false}};
  EXPECT_THAT(decode(legacy, {"▁a"}), ElementsAre(" a"));
}

TEST(Decoder, WordEnds) {
  EXPECT_THAT(decode({{"type", "BPEDecoder"}, {"suffix", "</w>"}}, {"a</w>", "b", "c</w>"}),
              ElementsAre("a ", "b", "c"));
}

// decoders.Sequence([decoders.Fuse(), …]).decode([…]): what follows sees one token.
TEST(Decoder, AFusedTextIsOneToken) {
  const auto fused = [](const json& next, const std::vector<std::string>& tokens) {
    std::string text;
    for (const std::string& part :
         decode({{"type", "Sequence"}, {"decoders", {{{"type", "Fuse"}}, next}}}, tokens))
      text += part;
    return text;
  };
  const json metaspace{{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}};
  EXPECT_EQ(fused(metaspace, {"▁a", "▁b"}), "ab");
  EXPECT_EQ(fused({{"type", "BPEDecoder"}, {"suffix", "</w>"}}, {"a</w>", "b</w>"}), "ab");
  EXPECT_EQ(fused({{"type", "ByteFallback"}}, {"<0x41>", "<0x42>"}), "<0x41><0x42>");
  EXPECT_EQ(fused({{"type", "ByteFallback"}}, {"<0x41>"}), "A");
}

TEST(Decoder, NoDecoderJoinsWithSpaces) { EXPECT_THAT(decode(nullptr, {"a", "b"}), ElementsAre("a", " b")); }

TEST(Decoder, ReplaceByRegularExpression) {
  EXPECT_THAT(
      decode({{"type", "Replace"}, {"pattern", {{"Regex", "[▁_]+"}}}, {"content", "-"}}, {"▁▁a", "_", "b"}),
      ElementsAre("-a", "-", "b"));
}

TEST(Decoder, ReplaceInAFusedTextBelongsToTheTokenWhereItBegins) {
  const json fused{
      {"type", "Sequence"},
      {"decoders",
       {{{"type", "Fuse"}}, {{"type", "Replace"}, {"pattern", {{"String", "ab"}}}, {"content", "XYZ"}}}}};
  EXPECT_THAT(decode(fused, {"ca", "bd", "", "ab", "e"}), ElementsAre("cXYZ", "d", "", "XYZ", "e"));
  EXPECT_THAT(decode(fused, {"", "a", "", "b", ""}), ElementsAre("", "XYZ", "", "", ""));
}

TEST(Decoder, RefusesOthersByName) {
  try {
    decode({{"type", "CTC"}}, {});
    FAIL() << "expected FileError";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("tokenizer.json: decoder.type: found \"CTC\""));
  }
  EXPECT_THROW(decode({{"type", "Strip"}, {"content", ""}, {"start", 1}, {"stop", 0}}, {}), FileError);
  EXPECT_THROW(decode({{"type", "Strip"}, {"content", " "}, {"start", -1}, {"stop", 0}}, {}), FileError);
}

}  // namespace

}  // namespace keyscope::tokenizer
