#include "capture/tokenizer/tokenizer.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::tokenizer {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const fs::path kGoldens = fs::path(KEYSCOPE_SOURCE_DIR) / "tests/capture/tokenizer/goldens";

// The shares of all tokens, joined, are the decoded text.
void expect_shares_join(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  const auto text = tokenizer.token_text(ids);
  ASSERT_EQ(text.id, ids);
  ASSERT_EQ(text.offset.size(), ids.size() + 1);
  ASSERT_TRUE(std::is_sorted(text.offset.begin(), text.offset.end()));
  ASSERT_EQ(static_cast<std::size_t>(text.offset.back()), text.text.size());
  ASSERT_EQ(text.text, tokenizer.decode(ids));
}

// --- goldens of the tokenizers library: goldens/make_tokenizer_goldens.py

class GoldenTokenizer : public testing::TestWithParam<const char*> {};

// Where decoding gives something other than the text, the goldens say what, with U+FFFD for stray bytes.
std::string expected_decoding(const json& differing, std::size_t i, const std::string& text) {
  const auto found = differing.find(std::to_string(i));
  return found == differing.end() ? text : found->get<std::string>();
}

std::string shown(const std::string& decoded) {
  std::string buffer;
  return std::string(replace_invalid_utf8(decoded, buffer));
}

TEST_P(GoldenTokenizer, EncodesAndDecodesAsTheLibrary) {
  const std::string name = GetParam();
  const auto tokenizer = Tokenizer::load(kGoldens / (name + ".tokenizer.json"));
  const json golden = parse_json(read_file(kGoldens / (name + ".golden.json")));
  const auto texts = parse_json(read_file(kGoldens / "texts.json")).get<std::vector<std::string>>();
  ASSERT_EQ(golden["ids"].size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    SCOPED_TRACE(json_text(json(texts[i])));
    const auto ids = golden["ids"][i].get<std::vector<std::int32_t>>();
    ASSERT_EQ(tokenizer->encode(texts[i], false), ids);
    const std::string decoded = expected_decoding(golden["decoded"], i, texts[i]);
    EXPECT_EQ(shown(tokenizer->decode(ids)), decoded);
    EXPECT_EQ(shown(tokenizer->decode(ids, true)),
              expected_decoding(golden["decoded_without_special"], i, decoded));
    expect_shares_join(*tokenizer, ids);
    if (i < golden["with_special"].size()) {
      EXPECT_EQ(tokenizer->encode(texts[i], true),
                golden["with_special"][i].get<std::vector<std::int32_t>>());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, GoldenTokenizer,
                         testing::Values("gpt2", "gpt2_prefix_space", "llama3", "qwen", "cl100k", "qwen35",
                                         "o200k", "tekken", "smollm", "digit_runs", "other_patterns",
                                         "llama2", "mistral", "metaspace", "word_ends", "words_only",
                                         "unigram", "unigram_bytes"),
                         [](const auto& shape) { return std::string(shape.param); });

// A folder with a tokenizer.model alone, and what tokenizer_config.json says.
std::unique_ptr<Tokenizer> with_model(const test::ScratchFolder& folder, const std::string& name,
                                      const json& config) {
  fs::copy_file(kGoldens / (name + ".model"), folder.file("tokenizer.model"),
                fs::copy_options::overwrite_existing);
  std::ofstream(folder.file("tokenizer_config.json")) << json_text(config);
  return Tokenizer::load(folder.path());
}

TEST(SentencePiece, EncodesAsTheLibraryBetweenSpecialTokens) {
  const test::ScratchFolder folder;
  for (const std::string name : {"sentencepiece_bpe", "sentencepiece_unigram"}) {
    const json golden = parse_json(read_file(kGoldens / (name + ".golden.json")));
    const auto legacy = with_model(folder, name, json::object());
    const auto newer = with_model(folder, name, {{"legacy", false}});
    EXPECT_GE(golden["cases"].size(), 150U) << name;
    for (const json& expected : golden["cases"]) {
      SCOPED_TRACE(name + json_text(expected));
      const auto text = expected["text"].get<std::string>();
      EXPECT_EQ(newer->encode(text, false), expected["ids"].get<std::vector<std::int32_t>>());
      EXPECT_EQ(legacy->encode(text, false), expected["legacy_ids"].get<std::vector<std::int32_t>>());
      expect_shares_join(*newer, newer->encode(text, true));
    }
  }
}

TEST(SentencePiece, WhatStandsAroundATextIsTheConfigurations) {
  const test::ScratchFolder folder;
  const auto ids = [&](const json& config) {
    return with_model(folder, "sentencepiece_bpe", config)->encode("the", true);
  };
  const auto plain = ids(json::object());
  auto framed = plain;
  framed.insert(framed.begin(), 1);
  EXPECT_EQ(ids({{"tokenizer_class", "LlamaTokenizer"}}), framed);
  EXPECT_EQ(ids({{"tokenizer_class", "LlamaTokenizer"}, {"add_bos_token", false}}), plain);
  framed.push_back(2);
  EXPECT_EQ(ids({{"add_bos_token", true}, {"add_eos_token", true}}), framed);
}

TEST(SentencePiece, ComesBackAsText) {
  const test::ScratchFolder folder;
  const auto tokenizer = with_model(folder, "sentencepiece_bpe", {{"legacy", false}});
  for (const std::string text : {"The keys", "a  b", "東京 🚀", "x\ny"})
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false)), text);
}

TEST(SentencePiece, EveryBeginningOfAFileIsReadOrRefused) {
  const test::ScratchFolder folder;
  const std::string whole = read_file(kGoldens / "sentencepiece_bpe.model");
  for (std::size_t n = 0; n < whole.size(); n += n < 200 ? 1 : 97) {
    std::ofstream(folder.file("tokenizer.model"), std::ios::binary) << whole.substr(0, n);
    try {
      Tokenizer::load(folder.path());
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("tokenizer.model: ")) << n;
    }
  }
}

TEST(FolderTokenizer, WorksWithoutAndSaysWhy) {
  const test::ScratchFolder folder;
  const auto why = [&] {
    const FolderTokenizer tokenizer(folder.path());
    EXPECT_EQ(tokenizer.get(), nullptr);
    try {
      tokenizer.require("texts are read");
    } catch (const FileError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_THAT(why(), testing::EndsWith("found neither tokenizer.json nor tokenizer.model; texts are read"));
  EXPECT_EQ(FolderTokenizer(folder.path()).refusal(), "");
  std::ofstream(folder.file("tokenizer.json")) << R"({"model": {"type": "WordPiece", "vocab": {}}})";
  EXPECT_THAT(why(), testing::AllOf(testing::HasSubstr("model.type: found \"WordPiece\""),
                                    testing::EndsWith("; texts are read")));
  EXPECT_NE(FolderTokenizer(folder.path()).refusal(), "");
}

TEST(Tokenizer, InvalidUtf8IsReadAsReplacementCharacters) {
  const auto tokenizer = Tokenizer::load(kGoldens / "gpt2.tokenizer.json");
  EXPECT_EQ(tokenizer->encode("a\xE2\x96 b\xFF", false), tokenizer->encode("a\uFFFD b\uFFFD", false));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("\xFF", false)), "\uFFFD");
}

TEST(Tokenizer, IdsWithoutATokenAddNothing) {
  const auto tokenizer = Tokenizer::load(kGoldens / "gpt2.tokenizer.json");
  const std::vector<std::int32_t> a = tokenizer->encode("a", false);
  ASSERT_EQ(a.size(), 1U);
  const std::vector<std::int32_t> ids{a[0], 1'000'000, -1, INT32_MIN, INT32_MAX, a[0]};
  EXPECT_EQ(tokenizer->decode(ids), "aa");
  expect_shares_join(*tokenizer, ids);
  EXPECT_EQ(tokenizer->vocab_size(), 421);
}

TEST(Tokenizer, NoIds) {
  const auto tokenizer = Tokenizer::load(kGoldens / "llama2.tokenizer.json");
  EXPECT_EQ(tokenizer->decode({}), "");
  EXPECT_EQ(tokenizer->token_text({}).size(), 0);
  EXPECT_EQ(tokenizer->encode("", true), std::vector<std::int32_t>{1});
}

TEST(Tokenizer, ThreeMegabytesWithoutASpace) {
  for (const char* name : {"llama3", "o200k", "llama2"}) {
    const auto tokenizer = Tokenizer::load(kGoldens / (std::string(name) + ".tokenizer.json"));
    for (const std::string unit : {"a", "theKeys", "\u65e5", " "}) {
      std::string text = "x";
      while (text.size() < (3U << 20U)) text += unit;
      ASSERT_EQ(tokenizer->decode(tokenizer->encode(text, false)), text) << name << " " << unit;
    }
  }
}

TEST(Tokenizer, FolderOrFile) {
  const auto folder = fs::path(KEYSCOPE_SOURCE_DIR) / "assets/demo_model";
  const auto ids = Tokenizer::load(folder)->encode("The magic number", true);
  EXPECT_EQ(Tokenizer::load(folder / "tokenizer.json")->encode("The magic number", true), ids);
  EXPECT_GT(ids.size(), 3U);
}

// --- real tokenizers, found through KEYSCOPE_TEST_DATA

class RealTokenizer : public testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("KEYSCOPE_TEST_DATA");
    if (folder == nullptr || !fs::exists(folder)) GTEST_SKIP() << "KEYSCOPE_TEST_DATA does not name a folder";
    data_ = folder;
  }

  void expect_cases(const std::string& model, const std::string& cases) {
    const auto tokenizer = Tokenizer::load(data_ / "tokenizers" / model);
    std::ifstream lines(data_ / "tokenizers/tests" / cases);
    int n = 0;
    for (std::string line; std::getline(lines, line); ++n) {
      const json row = parse_json(line);
      const auto text = row["text"].get<std::string>();
      const auto ids = row["ids"].get<std::vector<std::int32_t>>();
      ASSERT_EQ(tokenizer->encode(text, false), ids) << text;
      ASSERT_EQ(tokenizer->decode(ids), text);
      expect_shares_join(*tokenizer, ids);
    }
    EXPECT_GE(n, 40);
  }

  std::string war_and_peace() { return read_file(data_ / "text/war-and-peace.txt"); }

  fs::path data_;
};

TEST_F(RealTokenizer, Llama3Cases) { expect_cases("llama3", "llama-bpe.jsonl"); }
TEST_F(RealTokenizer, Qwen3Cases) { expect_cases("qwen3", "qwen2.jsonl"); }

// Expected values: tokenizers 0.23.3.
TEST_F(RealTokenizer, SpecialTokens) {
  const auto llama = Tokenizer::load(data_ / "tokenizers/llama3");
  EXPECT_EQ(llama->encode("<|eot_id|> x", true), (std::vector<std::int32_t>{128000, 128009, 865}));
  EXPECT_EQ(llama->decode(std::vector<std::int32_t>{128000, 128009, 865}, true), " x");
  EXPECT_EQ(llama->vocab_size(), 128256);
  const auto qwen = Tokenizer::load(data_ / "tokenizers/qwen3");
  EXPECT_EQ(qwen->encode("<|im_end|>\nHi", true), (std::vector<std::int32_t>{151645, 198, 13048}));
  const auto stories = Tokenizer::load(data_ / "models/TinyStories-656K");
  EXPECT_EQ(stories->encode("<|end_story|>Hello <|end_story|> x", true),
            (std::vector<std::int32_t>{1, 2, 1288, 67, 2, 80, 76}));
  EXPECT_EQ(stories->encode("Once upon a time", true), (std::vector<std::int32_t>{1, 80, 147, 201, 282, 57}));
}

TEST_F(RealTokenizer, WarAndPeaceComesBack) {
  const std::string text = war_and_peace();
  ASSERT_GT(text.size(), 3'000'000U);
  const std::map<std::string, std::size_t> n_tokens{{"llama3", 769838}, {"qwen3", 771215}};
  for (const auto& [model, n] : n_tokens) {
    const auto tokenizer = Tokenizer::load(data_ / "tokenizers" / model);
    const auto ids = tokenizer->encode(text, false);
    EXPECT_EQ(ids.size(), n);
    ASSERT_EQ(tokenizer->decode(ids), text);
    expect_shares_join(*tokenizer, ids);
  }
}

// TinyStories has neither these characters nor byte tokens: all else comes back.
TEST_F(RealTokenizer, WarAndPeaceComesBackFromTinyStoriesButForUnknownCharacters) {
  const auto tokenizer = Tokenizer::load(data_ / "models/TinyStories-656K");
  std::string known;
  const std::string text = war_and_peace();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    next_code_point(text, at);
    const std::string character = text.substr(begin, at - begin);
    if (character.size() == 1 && std::string("()*/=").find(character) == std::string::npos)
      known += character;
  }
  ASSERT_GT(known.size(), 3'000'000U);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(known, false)), known);
}

using testing::ElementsAre;

std::vector<std::int32_t> apply(const json& description, std::vector<std::int32_t> ids) {
  PostProcessor(JsonField(description, "tokenizer.json", "post_processor")).apply(ids);
  return ids;
}

const json kText{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
json special(const char* name) { return {{"SpecialToken", {{"id", name}, {"type_id", 0}}}}; }
json make_template(const json& single) {
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"special_tokens",
           {{"<s>", {{"id", "<s>"}, {"ids", {1}}}}, {"</s>", {{"id", "</s>"}, {"ids", {2, 3}}}}}}};
}

TEST(PostProcessor, Templates) {
  EXPECT_THAT(apply(make_template({special("<s>"), kText}), {7, 8}), ElementsAre(1, 7, 8));
  EXPECT_THAT(apply(make_template({special("<s>"), kText, special("</s>")}), {}), ElementsAre(1, 2, 3));
  EXPECT_THAT(apply(make_template(json::array({kText})), {7}), ElementsAre(7));
}

TEST(PostProcessor, OthersAndSequences) {
  std::vector<std::int32_t> ids{7};
  PostProcessor().apply(ids);
  EXPECT_THAT(ids, ElementsAre(7));
  EXPECT_THAT(apply({{"type", "ByteLevel"}}, {7}), ElementsAre(7));
  EXPECT_THAT(apply({{"type", "RobertaProcessing"}, {"sep", {"</s>", 2}}, {"cls", {"<s>", 0}}}, {7}),
              ElementsAre(0, 7, 2));
  EXPECT_THAT(apply({{"type", "Sequence"},
                     {"processors", {{{"type", "ByteLevel"}}, make_template({special("<s>"), kText})}}},
                    {7}),
              ElementsAre(1, 7));
}

TEST(PostProcessor, SaysWhatIsWrong) {
  EXPECT_THROW(apply({{"type", "Unknown"}}, {}), FileError);
  EXPECT_THROW(apply(make_template({special("<x>"), kText}), {}), FileError);        // not in special_tokens
  EXPECT_THROW(apply(make_template(json::array({special("<s>")})), {}), FileError);  // no place for the text
  EXPECT_THROW(apply(make_template({kText, kText}), {}), FileError);                 // two
  EXPECT_THROW(apply(make_template(json::array({json::object()})), {}), FileError);
  EXPECT_THROW(apply({{"type", "BertProcessing"}, {"sep", {"</s>"}}, {"cls", {"<s>", 0}}}, {}), FileError);
  EXPECT_THROW(apply({{"type", "BertProcessing"}, {"sep", {"</s>", -1}}, {"cls", {"<s>", 0}}}, {}),
               FileError);
}

}  // namespace

}  // namespace keyscope::tokenizer
