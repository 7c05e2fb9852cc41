// Files that are no tokenizers: each gives one FileError, or loads and works. Nothing else.

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::tokenizer {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

class HostileTokenizer : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"qwen", "llama2", "word_ends"}) {
      std::ifstream file(fs::path(KEYSCOPE_SOURCE_DIR) / "tests/capture/tokenizer/goldens" /
                         (std::string(name) + ".tokenizer.json"));
      good_.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
      ASSERT_GT(good_.back().size(), 1000U);
    }
  }

  // What is said of a file with this text, "" if it is accepted; then it must also work.
  static std::string complaint(const std::string& text) {
    try {
      const auto tokenizer = Tokenizer::parse(text, "f/tokenizer.json");
      const auto ids = tokenizer->encode("Hello  <s> wörld <|im_end|> 123\n", true);
      tokenizer->token_text(ids);
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(), testing::StartsWith("f/tokenizer.json: "));
      return error.what();
    }
    return "";
  }

  std::string complaint_after(const std::function<void(json&)>& edit) {
    json document = parse_json(good_[1]);
    edit(document);
    return complaint(json_text(document));
  }

  std::vector<std::string> good_;
};

TEST_F(HostileTokenizer, MissingFilesAndFolders) {
  const fs::path goldens = fs::path(KEYSCOPE_SOURCE_DIR) / "tests/capture/tokenizer/goldens";
  EXPECT_THROW(Tokenizer::load(goldens), FileError);  // a folder without a tokenizer.json
  EXPECT_THROW(Tokenizer::load(goldens / "nothing.json"), FileError);
  EXPECT_THROW(Tokenizer::load("/dev/zero"), FileError);
  EXPECT_THROW(Tokenizer::load(""), FileError);
}

TEST_F(HostileTokenizer, EveryTruncatedFileIsRefused) {
  for (const std::string& text : good_)
    for (std::size_t n = 0; n + 2 < text.size(); n += 1 + n / 200)
      ASSERT_NE(complaint(text.substr(0, n)), "") << n;
}

// Whatever byte is damaged, there is a FileError or a tokenizer that works.
TEST_F(HostileTokenizer, DamagedBytes) {
  for (const std::string& text : good_)
    for (std::size_t at = 0; at < text.size(); at += 1 + at / 20)
      for (const char byte : {'\0', '"', '{', '}', '9', '\xFF'}) {
        std::string damaged = text;
        damaged[at] = byte;
        complaint(damaged);
      }
}

// Every value, replaced by one of another type.
TEST_F(HostileTokenizer, WrongTypesEverywhere) {
  const json other[] = {
      nullptr, true, -1, 1e300, "x", json::array(), json::object(), json::array({json::array()})};
  for (const std::string& text : good_) {
    json document = parse_json(text);
    const json flat = document.flatten();
    std::size_t n = 0;
    for (const auto& [pointer, value] : flat.items()) {
      // Of the vocabulary and the merges, a few entries stand for all.
      const bool in_table = pointer.starts_with("/model/vocab") || pointer.starts_with("/model/merges");
      if (in_table && ++n % 199 != 0) continue;
      for (json::json_pointer at(pointer); !at.empty(); at.pop_back())
        for (const json& replacement : other) {
          json good = std::exchange(document[at], replacement);
          complaint(json_text(document));
          document[at] = std::move(good);
        }
    }
  }
}

TEST_F(HostileTokenizer, SaysFileFieldFoundAndExpected) {
  EXPECT_THAT(complaint(""), HasSubstr("no valid JSON at byte"));
  EXPECT_THAT(complaint("[]"), HasSubstr("the document: found an array of 0, expected an object"));
  EXPECT_THAT(complaint("{}"), HasSubstr("the document: found no \"model\""));
  EXPECT_THAT(complaint_after([](json& d) { d["model"] = "BPE"; }),
              HasSubstr("model: found the string \"BPE\""));
  EXPECT_THAT(complaint_after([](json& d) { d["model"]["type"] = "WordPiece"; }),
              HasSubstr("found \"WordPiece\""));
  EXPECT_THAT(complaint_after([](json& d) {
                d["model"]["vocab"] = json::array({json::array({"a", 0.5})});
              }),
              HasSubstr("model: found no object \"vocab\""));
  EXPECT_THAT(complaint_after([](json& d) { d["normalizer"]["type"] = "BertNormalizer"; }),
              HasSubstr("normalizer.type"));
  EXPECT_THAT(complaint_after([](json& d) { d["model"]["vocab"]["a"] = -5; }),
              HasSubstr("model.vocab[\"a\"]"));
  EXPECT_THAT(complaint_after([](json& d) { d["added_tokens"] = 1; }), HasSubstr("added_tokens: found 1"));
  EXPECT_THAT(complaint_after([](json& d) { d["model"].erase("merges"); }), HasSubstr("\"merges\""));
  const auto unigram = [&](const char* vocab, const char* more = "") {
    return complaint(std::string(R"({"model": {"type": "Unigram", "vocab": )") + vocab + more + "}}");
  };
  EXPECT_EQ(unigram(R"([["a", -1.5], ["b", 0]])", R"(, "unk_id": 0)"), "");
  EXPECT_THAT(unigram(R"([["a", -1.5], ["a", 0]])"),
              HasSubstr("model.vocab[1]: found the token \"a\" a second time"));
  EXPECT_THAT(unigram(R"([["a"]])"), HasSubstr("model.vocab[0]: found a token alone"));
  EXPECT_THAT(unigram(R"([["a", "b"]])"), HasSubstr("model.vocab[0]"));
  EXPECT_THAT(unigram(R"([7])"), HasSubstr("model.vocab[0]"));
  EXPECT_THAT(unigram(R"([])"), HasSubstr("model: found no array \"vocab\""));
  EXPECT_THAT(unigram(R"([["a", 0]])", R"(, "unk_id": 1)"), HasSubstr("model.unk_id: found 1"));
  EXPECT_EQ(complaint_after([](json&) {}), "");
}

TEST_F(HostileTokenizer, LongTextsAreNotRepeatedInMessages) {
  const std::string message =
      complaint_after([](json& d) { d["model"]["merges"][0] = std::string(100'000, 'x'); });
  EXPECT_THAT(message, AllOf(HasSubstr("model.merges[0]"), HasSubstr("…")));
  EXPECT_LT(message.size(), 400U);
}

TEST_F(HostileTokenizer, ATextThatDoublesAgainAndAgainIsStopped) {
  json document = parse_json(good_[1]);
  const json twice{
      {"type", "Replace"}, {"pattern", {{"Regex", "(?m)."}}}, {"content", std::string(4096, 'a')}};
  document["normalizer"] = {{"type", "Sequence"}, {"normalizers", json::array({twice, twice, twice, twice})}};
  EXPECT_THROW(Tokenizer::parse(json_text(document), "f")->encode("ab", false), InvalidInput);
}

TEST_F(HostileTokenizer, AnEmptyModelEncodesToNothing) {
  EXPECT_EQ(complaint(R"({"model": {"type": "BPE", "vocab": {}, "merges": []}})"), "");
}

TEST_F(HostileTokenizer, ReplacementsThatDoubleAgainAndAgainEndSoon) {
  json document = parse_json(good_[1]);
  json steps = json::array();
  for (int i = 0; i < 40; ++i)
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "e"}}}, {"content", "ee"}});
  document["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  const auto tokenizer = Tokenizer::parse(json_text(document), "f/tokenizer.json");
  try {
    tokenizer->encode("Hello there", false);
    FAIL() << "nothing thrown";
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), HasSubstr("normalizer"));
  }
}

}  // namespace
}  // namespace keyscope::tokenizer
