#include "capture/tokenizer/added_tokens.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::tokenizer {

namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

json token(const char* content, json options = json::object()) {
  options["id"] = 99;  // of which the tokenizers library takes no notice
  options["content"] = content;
  if (!options.contains("normalized")) options["normalized"] = false;
  return options;
}

std::vector<AddedToken> read_tokens(const json& list) {
  std::vector<AddedToken> tokens;
  JsonField(list, "tokenizer.json", "added_tokens").for_each([&](const JsonField& entry) {
    tokens.push_back(read_added_token(entry));
  });
  return tokens;
}

// Of a vocabulary of `n_vocabulary` tokens, the last of which is "known".
AddedTokens make_tokens(const json& list, int n_vocabulary = 0) {
  Vocabulary vocabulary;
  for (int id = 0; id < n_vocabulary; ++id)
    vocabulary.add(id + 1 == n_vocabulary ? "known" : fmt::format("t{}", id), id);
  return {read_tokens(list), vocabulary, nullptr};
}

// Tokens as their ids in brackets, text between them as it is.
std::string with_ids(const json& list, const std::string& text, int n_vocabulary = 1) {
  std::string result;
  make_tokens(list, n_vocabulary)
      .split_raw(text, [&](std::optional<std::int32_t> id, std::size_t begin, std::size_t end) {
        result += id ? fmt::format("[{}]", *id) : text.substr(begin, end - begin);
      });
  return result;
}

TEST(AddedTokens, FoundInTheText) {
  const json list{token("<s>"), token("<s>x")};
  EXPECT_EQ(with_ids(list, "a<s>b<s>x"), "a[1]b[2]");
  EXPECT_EQ(with_ids(list, "<s><s>"), "[1][1]");
  EXPECT_EQ(with_ids(list, "<s"), "<s");
  EXPECT_EQ(with_ids(list, ""), "");
}

TEST(AddedTokens, WhiteSpaceGoesWithThem) {
  const json list{token("<l>", {{"lstrip", true}}), token("<r>", {{"rstrip", true}})};
  EXPECT_EQ(with_ids(list, "a \u00a0<l> b"), "a[1] b");
  EXPECT_EQ(with_ids(list, "a <r> \n b"), "a [2]b");
  EXPECT_EQ(with_ids(list, "<r>  <l>"), "[2][1]");
  EXPECT_EQ(with_ids(list, "  <l>"), "[1]");
  EXPECT_EQ(with_ids(list, "<r>  "), "[2]");
}

// Expected values: tokenizers 0.23.3. A token of white space is found even where its neighbour took it.
TEST(AddedTokens, WhiteSpaceThatIsATokenGoesTwice) {
  const json list{token("<l>", {{"lstrip", true}}), token("<r>", {{"rstrip", true}}), token("  "),
                  token("\n\n")};
  EXPECT_EQ(with_ids(list, "<l> y<r>\n\n  "), "[1] y[2][4][3]");
  EXPECT_EQ(with_ids(list, "<l><r>   y<l>"), "[1][2][3] y[1]");
}

TEST(AddedTokens, IdsAreThoseOfTheLibraryWhateverTheFileSays) {
  EXPECT_EQ(with_ids({token("<b>"), token("<a>")}, "<a><b>", 10), "[11][10]");
  EXPECT_EQ(with_ids({token("known"), token("<a>")}, "<a>known", 10), "[10][9]");
  EXPECT_EQ(with_ids({token("<a>"), token("<b>"), token("<a>")}, "<a><b>", 10), "[10][11]");
  EXPECT_EQ(with_ids({token("t0"), token("<a>")}, "<a>t0", 10), "[10][0]");
  EXPECT_EQ(with_ids({token(""), token("<a>")}, "<a>", 10), "[10]");
  EXPECT_EQ(with_ids({token("<a>"), token("<b>")}, "<a><b>", 0), "[0][1]");
}

TEST(AddedTokens, TheLastEntryOfAContentSaysHowItIsFound) {
  const json list{token("<a>"), token("<a>", {{"rstrip", true}})};
  EXPECT_EQ(with_ids(list, "<a>  x"), "[1]x");
  EXPECT_TRUE(make_tokens({token("<a>", {{"special", true}}), token("<a>")}).is_special("<a>"));
}

TEST(AddedTokens, SingleWords) {
  const json list = json::array({token("word", {{"single_word", true}})});
  EXPECT_EQ(with_ids(list, "word words sword é_word word, -word"), "[1] words sword é_word [1], -[1]");
  EXPECT_EQ(with_ids(list, "éword wordé"), "éword wordé");
}

TEST(AddedTokens, NormalizedOnesAreLookedForInNormalizedText) {
  const json description{{"type", "Lowercase"}};
  const auto lowercase = read_normalizer(JsonField(description, "tokenizer.json", "normalizer"));
  const json list = json::array({token("ABC", {{"normalized", true}})});
  const AddedTokens tokens(read_tokens(list), Vocabulary(), lowercase.get());
  int found = 0;
  tokens.split_raw("ABC",
                   [&](std::optional<std::int32_t> id, std::size_t, std::size_t) { found += id ? 1 : 0; });
  EXPECT_EQ(found, 0);
  tokens.split_normalized(
      "xabc", [&](std::optional<std::int32_t> id, std::size_t, std::size_t) { found += id ? 1 : 0; });
  EXPECT_EQ(found, 1);
}

TEST(AddedTokens, LookUp) {
  const auto tokens = make_tokens({token("<s>", {{"special", true}}), token("x")}, 5);
  ASSERT_NE(tokens.find(5), nullptr);
  EXPECT_TRUE(tokens.is_special("<s>"));
  EXPECT_FALSE(tokens.is_special("x"));
  EXPECT_EQ(tokens.find(6)->content, "x");
  EXPECT_EQ(tokens.find(7), nullptr);
  EXPECT_EQ(tokens.largest_id(), 6);
  EXPECT_EQ(make_tokens(json::array()).largest_id(), -1);
}

std::string list_error(const json& list) {
  try {
    make_tokens(list);
  } catch (const FileError& error) {
    return error.what();
  }
  return "no error";
}

TEST(AddedTokens, FieldsAreChecked) {
  EXPECT_EQ(list_error(json::array({"<s>", token("a")})), "no error");
  EXPECT_THAT(list_error(json::array({{{"id", 3}}})), HasSubstr("added_tokens[0]: found no \"content\""));
  EXPECT_THAT(list_error(json::array({token("a", {{"lstrip", 1}})})),
              HasSubstr("added_tokens[0].lstrip: found 1, expected true or false"));
  EXPECT_THAT(list_error(json::object()), HasSubstr("added_tokens: found an object, expected an array"));
}

// Expected values: Transformers 5.24.0 with tokenizers 0.23.3.
class TokensBeside : public testing::Test {
 protected:
  void write(const char* name, const json& content) const {
    write_file(folder_.file(name), json_text(content), true);
  }
  // What is added to "<s>", which is no special token: contents, each with the first letters of its flags.
  std::vector<std::string> added() const {
    std::vector<std::string> result;
    for (const AddedToken& token : tokens_beside(folder_.path(), {{.content = "<s>"}}))
      result.push_back(fmt::format("{} {}{}{}{}", token.content, token.lstrip ? "l" : "",
                                   token.rstrip ? "r" : "", token.normalized ? "n" : "",
                                   token.special ? "s" : ""));
    return result;
  }

  test::ScratchFolder folder_;
};

TEST_F(TokensBeside, NothingWithoutFiles) { EXPECT_THAT(added(), testing::IsEmpty()); }

TEST_F(TokensBeside, TheDecoderGoesByIdAndChangesFlags) {
  const json decoder{{"12", {{"content", "<x>"}, {"lstrip", true}, {"special", true}}},
                     {"9", {{"content", "<y>"}, {"normalized", false}}},
                     {"3", {{"content", "<s>"}, {"rstrip", true}}}};
  write("tokenizer_config.json",
        {{"added_tokens_decoder", decoder}, {"eos_token", "<y>"}, {"pad_token", "<p>"}});
  write("special_tokens_map.json", {{"unk_token", "<u>"}});  // counts only without that decoder
  EXPECT_THAT(added(), ElementsAre("<s> rn", "<y> s", "<x> ls", "<p> s"));
}

TEST_F(TokensBeside, NamedOnesAndOthers) {
  write("tokenizer_config.json", {{"pad_token", {{"content", "<p>"}, {"lstrip", true}}},
                                  {"bos_token", "<s>"},
                                  {"eos_token", "<e>"},
                                  {"unk_token", nullptr},
                                  {"additional_special_tokens", {"<a>", "<e>"}}});
  EXPECT_THAT(added(), ElementsAre("<e> s", "<p> ls", "<a> s"));
  write("tokenizer_config.json", {{"extra_special_tokens", {{"image_token", "<i>"}}}});
  EXPECT_THAT(added(), ElementsAre("<i> s"));
}

TEST_F(TokensBeside, AModelsOwnNames) {
  write("tokenizer_config.json",
        {{"image_token", "<img>"},
         {"boi_token", {{"__type", "AddedToken"}, {"content", "<boi>"}, {"lstrip", true}}},
         {"add_bos_token", true},
         {"pad_token", "<p>"},
         {"additional_special_tokens", {"<a>"}}});
  EXPECT_THAT(added(), ElementsAre("<p> s", "<boi> ls", "<img> s", "<a> s"));
}

TEST_F(TokensBeside, ListsOfBothFilesUnderBothNames) {
  const char *extra = "extra_special_tokens", *older = "additional_special_tokens";
  const json one{"<one>"}, two{"<two>"}, none = json::array();
  const auto of = [&](const json& configuration, const json& map) {
    write("tokenizer_config.json", configuration);
    write("special_tokens_map.json", map);
    return added();
  };
  EXPECT_THAT(of({{older, one}}, {{older, two}}), ElementsAre("<one> s"));
  EXPECT_THAT(of({{older, none}}, {{older, two}}), testing::IsEmpty());
  EXPECT_THAT(of(json::object(), {{older, two}}), ElementsAre("<two> s"));
  EXPECT_THAT(of({{extra, one}, {older, two}}, json::object()), ElementsAre("<one> s"));
  EXPECT_THAT(of({{extra, none}, {older, two}}, json::object()), ElementsAre("<two> s"));
  EXPECT_THAT(of({{extra, one}, {older, {"<a>"}}}, {{extra, {"<two>", "<one>"}}}),
              ElementsAre("<one> s", "<two> s"));
  EXPECT_THAT(of({{extra, {{"image_token", "<i>"}}}}, {{older, two}}), ElementsAre("<i> s", "<two> s"));
}

TEST_F(TokensBeside, OlderFilesCountWithoutADecoder) {
  write("tokenizer_config.json", {{"eos_token", "<x>"}});
  write("special_tokens_map.json", {{"eos_token", {{"content", "<e>"}, {"rstrip", true}}}});
  write("added_tokens.json", {{"<b>", 8}, {"<e>", 7}});
  EXPECT_THAT(added(), ElementsAre("<e> s", "<b> n"));
}

TEST_F(TokensBeside, ADamagedFileIsNamed) {
  write_file(folder_.file("tokenizer_config.json"), "{", true);
  EXPECT_THAT([&] { added(); }, testing::ThrowsMessage<FileError>(HasSubstr("tokenizer_config.json")));
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
