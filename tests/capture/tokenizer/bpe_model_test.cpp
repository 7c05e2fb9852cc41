#include "capture/tokenizer/bpe_model.hpp"

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"

namespace keyscope::tokenizer {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

BpeModel make_model(const json& model) {
  TokenizerJson parts = parse_tokenizer_json(json_text(json{{"model", model}}), "tokenizer.json");
  const json document = parts.document;
  return {parts, JsonField(document, "tokenizer.json", "").member("model")};
}

std::vector<std::int32_t> encode(const BpeModel& model, std::string_view piece) {
  PieceCache cache;
  std::vector<std::int32_t> ids;
  model.encode(piece, cache, ids);
  return ids;
}

json vocabulary_of(const std::vector<std::string>& tokens) {
  json vocabulary = json::object();
  for (std::size_t i = 0; i < tokens.size(); ++i) vocabulary[tokens[i]] = i;
  return vocabulary;
}

std::string model_error(const json& model) {
  try {
    make_model(model);
  } catch (const FileError& error) {
    return error.what();
  }
  return "no error";
}

TEST(BpeModel, LowestRankMergesFirstAndLeftmostAmongEquals) {
  const BpeModel model = make_model({{"vocab", vocabulary_of({"a", "b", "c", "ab", "bc", "aa", "abc"})},
                                     {"merges", {"b c", "a b", "a a", "ab c"}}});
  EXPECT_THAT(encode(model, "abc"), ElementsAre(0, 4));  // b c outranks a b; a bc has no merge
  EXPECT_THAT(encode(model, "ab"), ElementsAre(3));
  EXPECT_THAT(encode(model, "aaa"), ElementsAre(5, 0));
  EXPECT_THAT(encode(model, "aab"), ElementsAre(0, 3));
  EXPECT_THAT(encode(model, ""), ElementsAre());
}

TEST(BpeModel, IgnoreMergesTakesWholePieces) {
  json description{{"vocab", vocabulary_of({"a", "b", "c", "abc"})}, {"merges", json::array()}};
  EXPECT_THAT(encode(make_model(description), "abc"), ElementsAre(0, 1, 2));
  description["ignore_merges"] = true;
  EXPECT_THAT(encode(make_model(description), "abc"), ElementsAre(3));
  EXPECT_THAT(encode(make_model(description), "abcabc"), ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST(BpeModel, UnknownCharacters) {
  json description{{"vocab", vocabulary_of({"<unk>", "a", "<0xC3>", "<0xA9>"})}, {"merges", json::array()}};
  EXPECT_THAT(encode(make_model(description), "axya"), ElementsAre(1, 1));  // no unknown token: left out
  description["unk_token"] = "<unk>";
  EXPECT_THAT(encode(make_model(description), "axya"), ElementsAre(1, 0, 0, 1));
  description["fuse_unk"] = true;
  EXPECT_THAT(encode(make_model(description), "axyax"), ElementsAre(1, 0, 1, 0));
  description["byte_fallback"] = true;
  EXPECT_THAT(encode(make_model(description), "aéa"), ElementsAre(1, 2, 3, 1));
  EXPECT_THAT(encode(make_model(description), "aèa"), ElementsAre(1, 0, 1));  // <0xA8> is missing
}

TEST(BpeModel, PrefixAndSuffix) {
  const BpeModel model =
      make_model({{"vocab", vocabulary_of({"a", "##a", "##a</w>", "a</w>", "aa", "aa</w>"})},
                  {"merges", json::array({json::array({"a", "##a"}), json::array({"a", "##a</w>"})})},
                  {"continuing_subword_prefix", "##"},
                  {"end_of_word_suffix", "</w>"}});
  EXPECT_THAT(encode(model, "a"), ElementsAre(3));
  EXPECT_THAT(encode(model, "aa"), ElementsAre(5));
  EXPECT_THAT(encode(model, "aaa"), ElementsAre(4, 2));
}

TEST(BpeModel, TokensWithSpacesMergeAsPairs) {
  const BpeModel model =
      make_model({{"vocab", vocabulary_of({" ", "a", " a", "a a"})},
                  {"merges", json::array({json::array({" ", "a"}), json::array({"a", " a"})})}});
  EXPECT_THAT(encode(model, "a a"), ElementsAre(3));
}

// The obvious way: look for the lowest rank, leftmost, merge, again.
class SlowModel {
 public:
  explicit SlowModel(const std::vector<std::pair<std::string, std::string>>& merges) {
    for (std::size_t i = 0; i < merges.size(); ++i) rank_[merges[i]] = i;
  }
  std::vector<std::string> encode(const std::string& piece) const {
    std::vector<std::string> tokens;
    for (const char c : piece) tokens.emplace_back(1, c);
    while (true) {
      std::size_t best = SIZE_MAX;
      std::size_t where = 0;
      for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
        const auto found = rank_.find({tokens[i], tokens[i + 1]});
        if (found == rank_.end() || found->second >= best) continue;
        best = found->second;
        where = i;
      }
      if (best == SIZE_MAX) return tokens;
      tokens[where] += tokens[where + 1];
      tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(where) + 1);
    }
  }

 private:
  std::map<std::pair<std::string, std::string>, std::size_t> rank_;
};

// Random merges over few letters: long pieces part where nothing can join, and give what the whole would.
TEST(BpeModel, AgreesWithTheObviousMergeOnRandomModels) {
  std::mt19937 random(11);
  const auto pick = [&random](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  for (int round = 0; round < 40; ++round) {
    std::vector<std::string> tokens{"a", "b", "c", "d", "e", "f"};
    std::vector<std::pair<std::string, std::string>> merges;
    json written = json::array();
    const std::size_t n_merges = 5 + pick(60);
    while (merges.size() < n_merges) {
      const std::string left = tokens[pick(tokens.size())];
      const std::string right = tokens[pick(tokens.size())];
      if (left.size() + right.size() > 12 || std::count(tokens.begin(), tokens.end(), left + right) > 0) {
        if (pick(50) == 0) break;
        continue;
      }
      tokens.push_back(left + right);
      merges.emplace_back(left, right);
      written.push_back(left + " " + right);
    }
    const BpeModel model = make_model({{"vocab", vocabulary_of(tokens)}, {"merges", written}});
    const SlowModel slow(merges);
    for (int i = 0; i < 30; ++i) {
      std::string piece;
      const std::size_t length = 1 + pick(300);
      while (piece.size() < length) piece += tokens[pick(6)];
      std::vector<std::string> found;
      for (const auto id : encode(model, piece)) found.emplace_back(model.vocabulary().text(id));
      ASSERT_EQ(found, slow.encode(piece)) << piece;
    }
  }
}

TEST(BpeModel, OnePieceOfThreeMegabytes) {
  std::vector<std::string> tokens{"a", "b"};
  json merges = json::array();
  for (std::string run = "a"; run.size() < 4096; run += run) {
    tokens.push_back(run + run);
    merges.push_back(run + " " + run);
  }
  const BpeModel model = make_model({{"vocab", vocabulary_of(tokens)}, {"merges", merges}});
  constexpr std::size_t kLength = 3U << 20U;
  // Nowhere to part it: every pair of neighbours merges, eleven levels deep.
  EXPECT_EQ(encode(model, std::string(kLength, 'a')).size(), kLength / 4096);
}

TEST(BpeModel, SaysWhatIsWrong) {
  const json vocab = vocabulary_of({"a", "b"});
  EXPECT_THAT(model_error({{"vocab", vocab}}), HasSubstr("model: found no array \"merges\""));
  EXPECT_THAT(model_error({{"merges", json::array()}}), HasSubstr("model: found no object \"vocab\""));
  EXPECT_THAT(model_error({{"vocab", vocab}, {"merges", json::array({"a c"})}}),
              HasSubstr("model.merges[0]: found \"a\" + \"c\""));
  EXPECT_THAT(model_error({{"vocab", vocab}, {"merges", json::array({"a b"})}}),
              HasSubstr("(\"ab\" is not)"));
  EXPECT_THAT(model_error({{"vocab", vocab}, {"merges", json::array()}, {"unk_token", "x"}}),
              HasSubstr("model.unk_token: found \"x\""));
  EXPECT_THAT(model_error({{"vocab", vocab}, {"merges", json::array()}, {"dropout", 0.1}}),
              HasSubstr("model.dropout"));
  EXPECT_THAT(model_error({{"vocab", vocab}, {"merges", json::array()}, {"byte_fallback", 1}}),
              HasSubstr("model.byte_fallback: found 1, expected true or false"));
  EXPECT_THAT(model_error({{"vocab", json::array({json::array({"a", -1.5})})}, {"merges", json::array()}}),
              HasSubstr("model: found no object \"vocab\""));
}

}  // namespace
}  // namespace keyscope::tokenizer
