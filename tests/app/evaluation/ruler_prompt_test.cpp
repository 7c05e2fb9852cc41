// The generators of RULER's prompts, character by character where they are small.

#include "app/evaluation/ruler_prompt.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/evaluation/ruler_lists.hpp"
#include "app/evaluation/ruler_needles.hpp"
#include "app/evaluation/ruler_questions.hpp"
#include "base/errors.hpp"
#include "tests/app/evaluation/made_results.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::evaluation {

namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

// A token for every character.
std::vector<std::int32_t> characters(const RulerText& text) {
  return std::vector<std::int32_t>(text.asked.size() + text.answer_prefix.size(), 1);
}

// Units of so many characters each, the n-th one longer by n % 3.
GrowingPrompt uneven(std::size_t least, std::size_t most, std::size_t n_characters, int& n_made) {
  return {least, most, [=, &n_made](std::size_t n) {
            ++n_made;
            RulerText text;
            for (std::size_t i = 0; i < n; ++i) text.asked.append(n_characters + i % 3, 'x');
            return text;
          }};
}

TEST(LongestPrompt, IsTheOneThatASlowSearchFinds) {
  for (const std::size_t n_characters : {1, 7, 40})
    for (const std::int64_t limit : {0, 1, 39, 40, 41, 300, 4096})
      for (const std::size_t near : {0, 1, 10, 100, 5000}) {
        int n_made = 0;
        const GrowingPrompt growing = uneven(1, 1000, n_characters, n_made);
        std::size_t expected = 0;
        while (expected < 1000 && std::ssize(characters(growing.made(expected + 1))) <= limit) ++expected;
        n_made = 0;
        const auto found = longest_prompt(growing, limit, characters, near);
        EXPECT_EQ(found ? found->n_units : 0, expected) << n_characters << " " << limit << " " << near;
        EXPECT_TRUE(!found || found->ids == characters(found->text));
        EXPECT_LE(n_made, 30);
      }
}

TEST(LongestPrompt, IsNoneWhereTheLeastDoesNotFit) {
  int n_made = 0;
  EXPECT_FALSE(longest_prompt(uneven(10, 100, 5, n_made), 49, characters));
  EXPECT_FALSE(longest_prompt(uneven(10, 9, 5, n_made), 4900, characters)) << "there is none";
  EXPECT_EQ(longest_prompt(uneven(10, 12, 5, n_made), 4900, characters)->n_units, 12U) << "all there are";
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The text between two others, each of which is there.
std::string between(const std::string& text, const std::string& first, const std::string& last) {
  const std::size_t begin = text.find(first), end = text.rfind(last);
  if (begin == text.npos || end == text.npos || begin + first.size() > end)
    return "no such place in: " + text;
  return text.substr(begin + first.size(), end - begin - first.size());
}

class RulerPrompts : public ::testing::Test {
 protected:
  RulerText needles(const std::string& task, std::size_t n, NeedleForms forms = {}, std::uint64_t seed = 5,
                    std::int64_t length = 4096) const {
    return ruler_needles(task, {seed, length, *tokenizer_}, forms, essay_).made(n);
  }
  RulerSample sample(std::int64_t length) const { return {5, length, *tokenizer_}; }

  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_ = tokenizer::Tokenizer::load(kDemoModel);
  Haystack essay_ = make_haystack(generated_text(40'000, 3));
};

TEST_F(RulerPrompts, ANeedleAmongNoise) {
  const RulerText text = needles("niah_single_1", 3);
  const std::string key = between(text.answer_prefix, " number for ", " mentioned");
  ASSERT_EQ(text.outputs.size(), 1U);
  const std::string needle = "One of the special magic numbers for " + key + " is: " + text.outputs[0] + ".";
  std::vector<std::string> expected(3, std::string(kRulerNoise));
  const auto lines = lines_of(text.asked);
  ASSERT_EQ(lines.size(), 6U);
  const auto place = std::ranges::find(lines, needle) - lines.begin();
  ASSERT_LT(place, 6);
  expected.insert(expected.begin() + (place - 1), needle);
  std::string context;
  for (const std::string& line : expected) context += line + "\n";
  EXPECT_EQ(
      text.asked,
      "A special magic number is hidden within the following text. Make sure to memorize it. I will quiz "
      "you about the number afterwards.\n" +
          context + "What is the special magic number for " + key + " mentioned in the provided text?");
  EXPECT_EQ(text.answer_prefix,
            " The special magic number for " + key + " mentioned in the provided text is");
  EXPECT_THAT(key, ::testing::MatchesRegex("[a-z]+-[a-z]+"));
  EXPECT_THAT(text.outputs[0], ::testing::MatchesRegex("[1-9][0-9]{6}"));
}

constexpr const char* kUuid = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}";

TEST_F(RulerPrompts, ANeedleAmongNeedles) {
  for (const bool uuids : {false, true}) {
    const RulerText text = needles(uuids ? "niah_multikey_3" : "niah_multikey_2", 40);
    const std::string kind = uuids ? "uuid" : "number";
    const auto lines = lines_of(text.asked);
    ASSERT_EQ(lines.size(), 43U);
    EXPECT_EQ(lines.front(),
              "A special magic " + kind +
                  " is hidden within the following text. Make sure to memorize it. I will quiz "
                  "you about the " +
                  kind + " afterwards.");
    std::set<std::string> keys, values;
    for (std::size_t i = 1; i < 42; ++i) {
      EXPECT_THAT(lines[i], StartsWith("One of the special magic " + kind + "s for "));
      keys.insert(between(lines[i], "s for ", " is: "));
      values.insert(between(lines[i], " is: ", "."));
    }
    EXPECT_EQ(keys.size(), 41U);
    EXPECT_EQ(values.size(), 41U);
    EXPECT_TRUE(values.contains(text.outputs[0]));
    EXPECT_THAT(text.outputs[0], ContainsRegex(uuids ? kUuid : "^[0-9]{7}$"));
    const std::string key = between(text.answer_prefix, " for ", " mentioned");
    EXPECT_TRUE(keys.contains(key));
    EXPECT_EQ(lines.back(),
              "What is the special magic " + kind + " for " + key + " mentioned in the provided text?");
  }
}

TEST_F(RulerPrompts, NeedlesInAnEssay) {
  const struct {
    const char* task;
    std::size_t n_needles, n_outputs;
  } kCases[]{{"niah_single_2", 1, 1},
             {"niah_single_3", 1, 1},
             {"niah_multikey_1", 4, 1},
             {"niah_multivalue", 4, 4},
             {"niah_multiquery", 4, 4}};
  for (const auto& [task, n_needles, n_outputs] : kCases) {
    SCOPED_TRACE(task);
    EXPECT_TRUE(is_in_essay(task));
    const RulerText text = needles(task, 300);
    EXPECT_EQ(text.outputs.size(), n_outputs);
    std::string context = between(text.asked, "afterwards.\n", "\nWhat ");
    // What is left without the needles is the essay's first words.
    std::size_t n_found = 0;
    for (std::size_t at; (at = context.find("One of the special magic ")) != context.npos; ++n_found) {
      const std::size_t end = context.find('.', at);
      context.erase(at, std::min(end + 2, context.size()) - at);
    }
    while (context.ends_with(' ')) context.pop_back();
    EXPECT_EQ(n_found, n_needles);
    EXPECT_EQ(context, essay_.first_words(300).text);
  }
}

TEST_F(RulerPrompts, SeveralNeedlesAreAskedForInThePlural) {
  const RulerText values = needles("niah_multivalue", 200);
  EXPECT_THAT(values.asked,
              StartsWith("Some special magic numbers are hidden within the following text. Make "
                         "sure to memorize it. I will quiz you about the numbers afterwards.\n"));
  const std::string key = between(values.answer_prefix, " for ", " mentioned");
  EXPECT_THAT(values.asked, EndsWith("\nWhat are all the special magic numbers for " + key +
                                     " mentioned in the provided text?"));
  EXPECT_EQ(values.answer_prefix,
            " The special magic numbers for " + key + " mentioned in the provided text are");
  for (const std::string& output : values.outputs)
    EXPECT_THAT(values.asked,
                HasSubstr("One of the special magic numbers for " + key + " is: " + output + "."));

  const RulerText queries = needles("niah_multiquery", 200);
  const std::string keys = between(queries.answer_prefix, " for ", " mentioned");
  EXPECT_THAT(keys, ::testing::MatchesRegex("[a-z-]+, [a-z-]+, [a-z-]+, and [a-z-]+"));
  // Outputs stand in the order of the keys.
  std::istringstream words(keys);
  std::size_t at = 0;
  for (std::string word; words >> word;) {
    if (word == "and") continue;
    if (word.ends_with(',')) word.pop_back();
    EXPECT_THAT(queries.asked, HasSubstr("One of the special magic numbers for " + word +
                                         " is: " + queries.outputs[at++] + "."));
  }
  EXPECT_EQ(at, 4U);
}

TEST_F(RulerPrompts, ParaphrasedNeedlesSayTheSameInOtherWords) {
  std::set<std::string> beginnings;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const RulerText text = needles("niah_single_1", 4, {.paraphrased = true}, seed);
    const RulerText plain = needles("niah_single_1", 4, {}, seed);
    EXPECT_THAT(text.asked, Not(HasSubstr("One of the special magic")));
    EXPECT_EQ(text.outputs.size(), 1U);
    const std::string key = between(text.answer_prefix, " for ", " mentioned");
    EXPECT_EQ(text.answer_prefix, plain.answer_prefix) << "the question stays";
    for (const std::string& line : lines_of(text.asked))
      if (line.find(text.outputs[0]) != line.npos) {
        EXPECT_THAT(line, HasSubstr(key));
        EXPECT_THAT(line, HasSubstr("number"));
        std::string form = line;
        form.replace(form.find(key), key.size(), "K");
        form.replace(form.find(text.outputs[0]), text.outputs[0].size(), "V");
        beginnings.insert(form);
      }
  }
  EXPECT_EQ(beginnings.size(), 8U);
}

TEST_F(RulerPrompts, HeterogeneousNeedlesAreOfSeveralKinds) {
  const auto kinds_in = [](const std::string& text) {
    std::set<std::string> kinds;
    for (const char* kind : {"numbers", "words", "uuids", "dates", "times", "codes"})
      if (text.find(std::string("One of the special magic ") + kind + " for") != text.npos)
        kinds.insert(kind);
    return kinds;
  };
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const RulerText one = needles("niah_single_2", 200, {.heterogeneous = true}, seed);
    EXPECT_EQ(kinds_in(one.asked).size(), 4U);
    ASSERT_EQ(one.outputs.size(), 1U);
    const std::string kind = between(one.answer_prefix, " magic ", " for ");
    EXPECT_THAT(one.asked, HasSubstr("One of the special magic " + kind + "s for " +
                                     between(one.answer_prefix, " for ", " mentioned") +
                                     " is: " + one.outputs[0] + "."));
    const RulerText four = needles("niah_multivalue", 200, {.heterogeneous = true}, seed);
    EXPECT_EQ(kinds_in(four.asked).size(), 4U);
    EXPECT_THAT(four.answer_prefix, StartsWith(" The special magic values for "));
    EXPECT_THAT(four.asked, StartsWith("Some special magic values are hidden"));
    EXPECT_EQ(four.outputs.size(), 4U);
  }
  EXPECT_EQ(kinds_in(needles("niah_multikey_2", 60, {.heterogeneous = true}).asked).size(), 6U);
}

TEST_F(RulerPrompts, GrowWithoutChangingWhatIsHidden) {
  for (const char* task : {"niah_single_1", "niah_multikey_2", "niah_multiquery"}) {
    const RulerText few = needles(task, 20), many = needles(task, 60);
    EXPECT_EQ(few.outputs, many.outputs);
    EXPECT_EQ(few.answer_prefix, many.answer_prefix);
  }
  EXPECT_THROW(ruler_needles("vt", sample(4096), {}, essay_), InvalidInput);
}

TEST_F(RulerPrompts, AChainOfAssignmentsAfterAnExample) {
  const RulerText text = ruler_chain(sample(4096)).made(6);
  const std::string head =
      "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n";
  const std::size_t second = text.asked.rfind(head);
  ASSERT_GT(second, 0U);
  const std::string example = text.asked.substr(0, second), asked = text.asked.substr(second);
  ASSERT_EQ(text.outputs.size(), 5U);
  const std::string value = between(asked, "assigned the value ", " in the text");
  std::vector<std::string> statements{"VAR " + text.outputs[0] + " = " + value};
  for (std::size_t i = 1; i < 5; ++i)
    statements.push_back("VAR " + text.outputs[i] + " = VAR " + text.outputs[i - 1] + " ");
  std::vector<std::string> found;
  std::size_t n_noise = 0;
  for (const std::string& line : lines_of(between(asked, head, "\nQuestion: "))) {
    if (line == kRulerNoise) ++n_noise;
    if (line.starts_with("VAR ")) found.push_back(line);
  }
  EXPECT_EQ(found, statements) << "in order";
  EXPECT_EQ(n_noise, 6U);
  EXPECT_THAT(asked, EndsWith("\nQuestion: Find all variables that are assigned the value " + value +
                              " in the text above."));
  EXPECT_EQ(text.answer_prefix,
            " Answer: According to the chain(s) of variable assignment in the text above, 5 variables are "
            "assigned the value " +
                value + ", they are: ");
  for (const std::string& name : text.outputs) EXPECT_THAT(name, ::testing::MatchesRegex("[A-Z]{5}"));
  EXPECT_THAT(example, StartsWith(head));
  EXPECT_THAT(example, ContainsRegex(", they are:  [A-Z]{3} [A-Z]{3} [A-Z]{3} [A-Z]{3} [A-Z]{3}\n\n$"));
  EXPECT_LE(tokenizer_->encode(example, true).size(), 500U + 30);
  EXPECT_GT(tokenizer_->encode(example, true).size(), 150U);
}

// How often each word stands in a numbered list, whose numbers are checked.
std::map<std::string, int> counts_in(const std::string& list) {
  std::map<std::string, int> counts;
  std::istringstream words(list);
  int expected = 0;
  for (std::string number, word; words >> number >> word;) {
    EXPECT_EQ(number, std::to_string(++expected) + ".");
    ++counts[word];
  }
  return counts;
}

TEST_F(RulerPrompts, TenWordsOfAListStandMoreOften) {
  const std::string head =
      "Below is a numbered list of words. In these words, some appear more often than others. Memorize the "
      "ones that appear most often.\n";
  const std::string question = "\nQuestion: What are the 10 most common words in the above list?";
  const std::string prefix = " Answer: The top 10 words that appear most often in the list are:";
  const struct {
    std::int64_t length;
    int n_shown, common_shown, others_shown, common, others;
  } kCases[]{{8192, 40, 10, 3, 30, 3},
             {4096, 20, 3, 1, 6, 1},  // since the demo model's tokenizer leaves no room for more
             {2048, 20, 3, 1, 6, 1}};
  for (const auto& rule : kCases) {
    const RulerText text = ruler_common_words(sample(rule.length)).made(50);
    EXPECT_EQ(text.answer_prefix, prefix);
    const std::size_t second = text.asked.rfind(head);
    const std::string example = text.asked.substr(0, second), asked = text.asked.substr(second);
    EXPECT_EQ(asked, head + between(asked, head, question) + question);
    const auto counts = counts_in(between(asked, head, question));
    EXPECT_EQ(counts.size(), 50U);
    for (const auto& [word, n] : counts) {
      const bool common = std::ranges::find(text.outputs, word) != text.outputs.end();
      EXPECT_EQ(n, common ? rule.common : rule.others) << word;
      for (const std::string& output : text.outputs)
        EXPECT_TRUE(word == output || word.find(output) == word.npos) << word << " " << output;
    }
    const auto shown = counts_in(between(example, head, question));
    EXPECT_EQ(std::ssize(shown), rule.n_shown);
    const auto answer = counts_in(between(example, prefix, "\n"));
    EXPECT_EQ(answer.size(), 10U);
    for (const auto& [word, n] : shown)
      EXPECT_EQ(n, answer.contains(word) ? rule.common_shown : rule.others_shown);
    EXPECT_THAT(example, EndsWith("\n"));
  }
}

TEST_F(RulerPrompts, CodedWordsFollowZipf) {
  const RulerText text = ruler_frequent_words(sample(4096)).made(1000);
  const std::string head =
      "Read the following coded text and track the frequency of each coded word. Find the three most "
      "frequently appeared coded words. ";
  const std::string question =
      "\nQuestion: Do not provide any explanation. Please ignore the dots '....'. What are the three most "
      "frequently appeared words in the above coded text?";
  const std::string context = between(text.asked, head, question);
  EXPECT_EQ(text.asked, head + context + question);
  EXPECT_EQ(text.answer_prefix,
            " Answer: According to the coded text above, the three most frequently appeared words are:");
  std::map<std::string, int> counts;
  std::istringstream words(context);
  for (std::string word; words >> word;) ++counts[word];
  std::multiset<int, std::greater<>> ordered;
  for (const auto& [word, n] : counts) {
    ordered.insert(n);
    EXPECT_THAT(word, ::testing::AnyOf("...", ::testing::MatchesRegex("[a-z]{6}")));
  }
  // scipy: (1000 * np.arange(1, 8.) ** -2 / zeta(2)).astype(int)
  const std::vector<int> expected{607, 151, 67, 37, 24, 16, 12};
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), ordered.begin()));
  EXPECT_EQ(counts["..."], 607);
  ASSERT_EQ(text.outputs.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(counts[text.outputs[i]], expected[i + 1]);
}

class RulerQuestions : public RulerPrompts {
 protected:
  std::filesystem::path write(const std::string& text) const {
    std::ofstream(folder_.file("questions.json")) << text;
    return folder_.file("questions.json");
  }
  test::ScratchFolder folder_;
};

const char* const kRivers = R"({"data": [{"paragraphs": [
  {"context": "The Vistula flows through Cracow.", "qas": [
    {"question": "Which river?", "answers": [{"text": "Vistula"}, {"text": "Vistula"}, {"text": "The Vistula"}]},
    {"question": "Who?", "is_impossible": true, "answers": [{"text": "none"}]}]},
  {"context": "The Neva is wide.", "qas": []}]},
  {"paragraphs": [{"context": "Smolensk has a kremlin.", "qas": [
    {"question": "Which town?", "answers": [{"text": "Smolensk"}]}]}]}]})";

TEST_F(RulerQuestions, OfSquadAreReadWithTheirArticles) {
  const Questions read = read_squad(write(kRivers));
  EXPECT_THAT(read.documents, ::testing::ElementsAre("Smolensk has a kremlin.", "The Neva is wide.",
                                                     "The Vistula flows through Cracow."));
  ASSERT_EQ(read.all.size(), 2U);
  EXPECT_EQ(read.all[0].text, "Which river?");
  EXPECT_THAT(read.all[0].answers, ::testing::ElementsAre("Vistula", "The Vistula"));
  EXPECT_THAT(read.all[0].own, ::testing::ElementsAre(2));
  EXPECT_THAT(read.all[0].near, ::testing::ElementsAre(1));
  EXPECT_THAT(read.all[1].own, ::testing::ElementsAre(0));
  EXPECT_TRUE(read.all[1].near.empty());
}

TEST_F(RulerQuestions, AreAskedOverTheirDocumentsAndThenOthers) {
  const Questions read = read_squad(write(kRivers));
  const GrowingPrompt growing = ruler_question(sample(4096), read, 0);
  EXPECT_EQ(growing.least, 1U);
  EXPECT_EQ(growing.most, 3U);
  const RulerText one = growing.made(1);
  EXPECT_EQ(one.asked,
            "Answer the question based on the given documents. Only give me the answer and do not output any "
            "other words.\n\nThe following are given documents.\n\nDocument 1:\nThe Vistula flows through "
            "Cracow.\n\nAnswer the question based on the given documents. Only give me the answer and do not "
            "output any other words.\n\nQuestion: Which river?");
  EXPECT_EQ(one.answer_prefix, " Answer:");
  EXPECT_THAT(one.outputs, ::testing::ElementsAre("Vistula", "The Vistula"));
  EXPECT_THAT(growing.made(2).asked, AllOf(HasSubstr("Neva"), HasSubstr("Vistula"),
                                           HasSubstr("\n\nDocument 2:\n"), Not(HasSubstr("Smolensk"))))
      << "the article's others come first";
  EXPECT_THAT(growing.made(3).asked, AllOf(HasSubstr("Neva"), HasSubstr("Vistula"), HasSubstr("Smolensk")));
}

TEST_F(RulerQuestions, OfHotpotqaHaveTheirTenDocuments) {
  const Questions read = read_hotpotqa(write(
      R"([{"question": "Where?", "answer": "Norway", "context": [["Novel", ["By Hansen.", " Long."]], ["Hansen", ["Norway."]]]},
          {"question": "Who?", "answer": "Li", "context": [["Song", ["By Li."]], ["Hansen", ["Norway."]]]}])"));
  EXPECT_THAT(read.documents,
              ::testing::ElementsAre("Hansen\nNorway.", "Novel\nBy Hansen. Long.", "Song\nBy Li."));
  ASSERT_EQ(read.all.size(), 2U);
  EXPECT_THAT(read.all[0].own, ::testing::ElementsAre(1, 0));
  EXPECT_THAT(read.all[1].own, ::testing::ElementsAre(2, 0));
  EXPECT_EQ(ruler_question(sample(4096), read, 1).least, 2U);
}

TEST_F(RulerQuestions, DamagedFilesAreRefusedByPlace) {
  const auto refused = [&](const char* text, auto read, const char* place, const char* what) {
    EXPECT_THAT(
        [&] { read(write(text)); },
        ThrowsMessage<FileError>(AllOf(HasSubstr("questions.json"), HasSubstr(place), HasSubstr(what))))
        << text;
  };
  refused("{", read_squad, "", "no JSON");
  refused("{}", read_squad, "data", "");
  refused(R"({"data": [{"paragraphs": [{"qas": []}]}]})", read_squad, "data[0].paragraphs[0]", "\"context\"");
  refused(R"({"data": [{"paragraphs": [{"context": 7, "qas": []}]}]})", read_squad,
          "data[0].paragraphs[0].context", "");
  refused(R"({"data": [{"paragraphs": [{"context": "a", "qas": [{"question": "b", "answers": "c"}]}]}]})",
          read_squad, "data[0].paragraphs[0].qas[0].answers", "");
  refused(R"({"data": []})", read_squad, "", "no question with an answer");
  refused(R"([{"question": "a", "answer": "b", "context": [["title"]]}])", read_hotpotqa, "[0].context[0]",
          "a title and its sentences");
  refused(R"([{"question": "a", "context": []}])", read_hotpotqa, "[0]", "\"answer\"");
  refused("[]", read_hotpotqa, "", "no question with an answer");
}

}  // namespace

}  // namespace keyscope::evaluation
