// Vocabularies of GGUF files: ids of the same tokenizers in their own files, whose goldens stand in goldens/.

#include "capture/tokenizer/gguf_tokenizer.hpp"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "capture/tokenizer/chat_template.hpp"
#include "capture/tokenizer/tokenizer.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::tokenizer {
namespace {

using nlohmann::json;
using test::GgufBuilder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

const fs::path kTokenizers = fs::path(KEYSCOPE_SOURCE_DIR) / "tests/capture/tokenizer/goldens";
const fs::path kFiles = fs::path(KEYSCOPE_SOURCE_DIR) / "tests/capture/model/goldens";

json read(const fs::path& path) { return parse_json(read_file(path)); }

class GgufFile {
 public:
  explicit GgufFile(const GgufBuilder& builder) {
    std::ofstream(path(), std::ios::binary) << builder.bytes();
  }
  fs::path path() const { return folder_.file("model.gguf"); }

  std::string complaint() const {
    try {
      Tokenizer::load(path());
      return "";
    } catch (const FileError& error) {
      return error.what();
    }
  }

 private:
  test::ScratchFolder folder_;
};

// --- files that the package `gguf` wrote: ../model/goldens/make_gguf_goldens.py

TEST(GgufTokenizer, ByteLevelIdsAreThoseOfTheTokenizersLibrary) {
  const auto tokenizer = Tokenizer::load(kFiles / "tokenizer_llama3.gguf");
  const json golden = read(kTokenizers / "llama3.golden.json");
  const auto texts = read(kTokenizers / "texts.json").get<std::vector<std::string>>();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto ids = golden["ids"][i].get<Ids>();
    ASSERT_EQ(tokenizer->encode(texts[i], false), ids) << texts[i];
    if (i < golden["with_special"].size()) {
      EXPECT_EQ(tokenizer->encode(texts[i], true), golden["with_special"][i].get<Ids>());
    }
  }
}

// As SentencePiece itself gives them, with a space before every part between special tokens.
TEST(GgufTokenizer, SentencePieceIdsAreThoseOfSentencePiece) {
  for (const std::string name : {"sentencepiece_bpe", "sentencepiece_unigram"}) {
    const auto tokenizer = Tokenizer::load(kFiles / ("tokenizer_" + name + ".gguf"));
    std::size_t n_compared = 0;
    const json golden = read(kTokenizers / (name + ".golden.json"));
    for (const json& each : golden["cases"]) {
      const auto text = each["text"].get<std::string>();
      // Symbols of the user's own, which the unigram model has, are looked for in the text as it is written;
      // and where it takes spaces away, SentencePiece takes those that are written as it writes them.
      const auto has = [&](const char* part) { return text.find(part) != text.npos; };
      if (name == "sentencepiece_unigram" && (has("x") || has("<|im_end|>") || has("▁"))) continue;
      const auto ids = each["legacy_ids"].get<Ids>();
      ASSERT_EQ(tokenizer->encode(text, false), ids) << name << ": " << json_text(json(text));
      ++n_compared;
      Ids with_begin = ids;
      with_begin.insert(with_begin.begin(), 1);
      ASSERT_EQ(tokenizer->encode(text, true), with_begin);
    }
    EXPECT_GT(n_compared, 200U) << name;
  }
}

// --- every way to split

// A tokenizer.json as a converter writes it.
GgufBuilder converted(const json& file, const std::string& pre) {
  std::map<std::int32_t, std::string> tokens;
  std::map<std::int32_t, std::int32_t> types;
  for (const auto& [text, id] : file["model"]["vocab"].items()) tokens[id] = text;
  for (const json& token : file["added_tokens"]) {
    tokens[token["id"]] = token["content"];
    types[token["id"]] = token["special"] ? 3 : 4;
  }
  std::vector<std::string> texts, merges;
  std::vector<std::int32_t> all_types;
  for (std::int32_t id = 0; id <= tokens.rbegin()->first; ++id) {
    const bool is_there = tokens.contains(id);
    texts.push_back(is_there ? tokens[id] : "[PAD" + std::to_string(id) + "]");
    all_types.push_back(!is_there ? 5 : types.contains(id) ? types[id] : 1);
  }
  for (const json& merge : file["model"]["merges"])
    merges.push_back(merge.is_string() ? merge.get<std::string>()
                                       : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  GgufBuilder builder;
  builder.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", pre);
  builder.texts("tokenizer.ggml.tokens", texts).counts("tokenizer.ggml.token_type", all_types);
  return builder.texts("tokenizer.ggml.merges", merges);
}

struct NamedSplit {
  const char *golden, *pre;
};

TEST(GgufTokenizer, EveryNameOfASplitIsThatOfItsModels) {
  const auto texts = read(kTokenizers / "texts.json").get<std::vector<std::string>>();
  for (const NamedSplit& split : {NamedSplit{"llama3", "llama-bpe"},
                                  {"llama3", "smaug-bpe"},
                                  {"qwen", "qwen2"},
                                  {"qwen", "deepseek-r1-qwen"},
                                  {"gpt2", "gpt-2"},
                                  {"smollm", "smollm"},
                                  {"tekken", "tekken"},
                                  {"o200k", "gpt-4o"},
                                  {"qwen35", "qwen35"}}) {
    const json file = read(kTokenizers / (std::string(split.golden) + ".tokenizer.json"));
    const GgufFile gguf(converted(file, split.pre));
    const auto tokenizer = Tokenizer::load(gguf.path());
    const json golden = read(kTokenizers / (std::string(split.golden) + ".golden.json"));
    std::size_t n_compared = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      // Added tokens that take spaces with them, or stand alone, are nothing that GGUF knows.
      const auto is_in = [&](const json& token) {
        const bool plain =
            !token["lstrip"] && !token["rstrip"] && !token["single_word"] && !token["normalized"];
        return !plain && texts[i].find(token["content"].get<std::string>()) != std::string::npos;
      };
      if (std::any_of(file["added_tokens"].begin(), file["added_tokens"].end(), is_in)) continue;
      ASSERT_EQ(tokenizer->encode(texts[i], false), golden["ids"][i].get<Ids>())
          << split.pre << ": " << json_text(json(texts[i]));
      ++n_compared;
    }
    EXPECT_GT(n_compared, 200U) << split.pre;
  }
}

TEST(GgufTokenizer, TheDefaultSplitKeepsPunctuationAndThreeDigitsApart) {
  GgufBuilder file;
  file.text("tokenizer.ggml.model", "gpt2");
  file.texts("tokenizer.ggml.tokens", {"a", "!", "1", "2", "11", "a!", "!a", "111", "1111"});
  file.texts("tokenizer.ggml.merges", {"a !", "! a", "1 1", "11 1", "111 1"});
  const GgufFile gguf(file);
  const auto tokenizer = Tokenizer::load(gguf.path());
  EXPECT_THAT(tokenizer->encode("a!a", false), ElementsAre(0, 1, 0));
  EXPECT_THAT(tokenizer->encode("1111", false), ElementsAre(7, 2));
}

// --- SentencePiece by hand

GgufBuilder pieces() {
  GgufBuilder file;
  file.text("tokenizer.ggml.model", "llama");
  file.texts("tokenizer.ggml.tokens",
             {"<unk>", "<s>", "</s>", "<0x0A>", "▁", "a", "b", "ab", "▁ab", "<tool>"});
  file.numbers("tokenizer.ggml.scores", {0, 0, 0, 0, -2, -3, -4, 0, -1, -1000});
  file.counts("tokenizer.ggml.token_type", {2, 3, 3, 6, 1, 1, 1, 1, 1, 4});
  file.count("tokenizer.ggml.bos_token_id", 1).count("tokenizer.ggml.eos_token_id", 2);
  return file.count("tokenizer.ggml.unknown_token_id", 0);
}

TEST(GgufTokenizer, SentencePieceByHand) {
  const GgufFile file(pieces());
  const auto tokenizer = Tokenizer::load(file.path());
  EXPECT_THAT(tokenizer->encode("ab", true), ElementsAre(1, 8));
  EXPECT_THAT(tokenizer->encode("ab\nab", false), ElementsAre(8, 3, 7)) << "a line end is a byte";
  EXPECT_THAT(tokenizer->encode("é", false), ElementsAre(4, 0)) << "unknown bytes";
  EXPECT_THAT(tokenizer->encode("</s>ab<tool>", false), ElementsAre(2, 8, 9));
  EXPECT_EQ(tokenizer->decode(Ids{8, 3, 7}), "ab\nab");
  EXPECT_EQ(tokenizer->decode(Ids{1, 8, 9, 2}, true), "ab<tool>") << "a user's own symbol is no special one";

  const GgufFile no_space(pieces()
                              .flag("tokenizer.ggml.add_space_prefix", false)
                              .flag("tokenizer.ggml.add_bos_token", false)
                              .flag("tokenizer.ggml.add_eos_token", true));
  EXPECT_THAT(Tokenizer::load(no_space.path())->encode("ab ab", true), ElementsAre(7, 8, 2));
}

// --- what is refused

TEST(GgufTokenizer, RefusesOtherKindsByName) {
  EXPECT_THAT(GgufFile(GgufBuilder()).complaint(), HasSubstr("has no metadata \"tokenizer.ggml.model\""));
  EXPECT_THAT(GgufFile(GgufBuilder().text("tokenizer.ggml.model", "bert")).complaint(),
              AllOf(HasSubstr("is \"bert\""), HasSubstr("\"gpt2\" (byte-level BPE) or \"llama\"")));
  EXPECT_THAT(GgufFile(converted(read(kTokenizers / "gpt2.tokenizer.json"), "deepseek-v3")).complaint(),
              AllOf(HasSubstr("is \"deepseek-v3\""), HasSubstr("llama-bpe"), HasSubstr("smollm")));
}

TEST(GgufTokenizer, RefusesListsThatContradictEachOther) {
  GgufBuilder file;
  file.text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", {"a", "b"});
  EXPECT_THAT(GgufFile(file).complaint(), HasSubstr("has no metadata \"tokenizer.ggml.scores\""));
  file.numbers("tokenizer.ggml.scores", {0});
  EXPECT_THAT(GgufFile(file).complaint(), HasSubstr("a list of 1, expected 2, one a token"));
  EXPECT_THAT(GgufFile(GgufBuilder(pieces()).counts("tokenizer.ggml.token_types", {1})).complaint(), "");
  GgufBuilder large;
  large.text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", {"a", std::string(1025, 'a')});
  EXPECT_THAT(GgufFile(large.numbers("tokenizer.ggml.scores", {0, -1})).complaint(),
              HasSubstr("a list with one of 1025 bytes at 1, expected at most 1024"));
  GgufBuilder bytes;
  bytes.text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.tokens", {"a", "\xFF"});
  EXPECT_THAT(GgufFile(bytes).complaint(), HasSubstr("expected UTF-8"));
  GgufBuilder twice;
  twice.text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.tokens", {"a", "a"});
  EXPECT_THAT(GgufFile(twice.texts("tokenizer.ggml.merges", {})).complaint(), HasSubstr("a second time"));
}

// --- chat templates

TEST(GgufTokenizer, ChatTemplatesAreThoseOfTheFile) {
  const fs::path file = kFiles / "tokenizer_llama3.gguf";
  const ChatTemplate chat = ChatTemplate::load(file);
  EXPECT_EQ(chat.render("hello", std::nullopt, local_now()), "<|begin_of_text|><|user|>hello<|eot_id|>");
  const GgufFile named(pieces()
                           .text("tokenizer.chat_template", "plain{{ unk_token }}")
                           .texts("tokenizer.chat_templates", {"tool_use"})
                           .text("tokenizer.chat_template.tool_use", "tools"));
  EXPECT_EQ(ChatTemplate::load(named.path()).render("hello", std::nullopt, local_now()), "plain<unk>");
  const GgufFile none(pieces());
  EXPECT_FALSE(ChatTemplate::load_if_there(none.path()));
  EXPECT_THROW(ChatTemplate::load(none.path()), FileError);
}

}  // namespace
}  // namespace keyscope::tokenizer
