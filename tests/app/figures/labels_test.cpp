#include "app/figures/labels.hpp"

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_recording.hpp"

namespace keyscope::figures {

namespace {

using ::testing::ElementsAre;

// A run of that policy, named after it with a number where the name is taken.
int add_run(FakeRecording& recording, const std::string& policy, const std::string& parameters,
            std::int64_t budget = 8) {
  const int run = recording.add_run(policy, budget);
  auto& plan = recording.edit_info().runs[run].plan;
  plan.parameters = parameters;
  plan.name = run > 0 ? fmt::format("{}-{}", policy, run + 1) : policy;
  return run;
}

TEST(RunLabel, APolicyAloneIsItsName) {
  FakeRecording recording(1, 1, 1, 1, 16, 4);
  const int keydiff = add_run(recording, "keydiff", R"({"anchor":"mean"})");
  const int sink = add_run(recording, "sink", R"({"first":4})");
  EXPECT_EQ(run_label(*recording.info(), keydiff), "keydiff");
  EXPECT_EQ(run_label(*recording.info(), sink), "sink");
}

TEST(RunLabel, RunsOfOnePolicyAreToldApartByWhatDiffers) {
  FakeRecording recording(1, 1, 1, 1, 16, 4);
  const int mean = add_run(recording, "keydiff", R"({"anchor":"mean","recent":0})");
  const int median = add_run(recording, "keydiff", R"({"anchor":"median","recent":0})");
  EXPECT_EQ(run_label(*recording.info(), mean), "keydiff, anchor mean");
  EXPECT_EQ(run_label(*recording.info(), median), "keydiff, anchor median");
  const int large = add_run(recording, "keydiff", R"({"anchor":"mean","recent":0.1})", 1200);
  EXPECT_EQ(run_label(*recording.info(), large), "keydiff, anchor mean, recent 0.1, N = 1,200");
}

TEST(RunLabel, RunsThatNothingTellsApartKeepTheirNames) {
  FakeRecording recording(1, 1, 1, 1, 16, 4);
  const int first = add_run(recording, "random", R"({"seed":1})");
  const int second = add_run(recording, "random", R"({"seed":1})");
  EXPECT_EQ(run_label(*recording.info(), first), "random");
  EXPECT_EQ(run_label(*recording.info(), second), "random-2");
  const int damaged = add_run(recording, "sink", "{");
  EXPECT_EQ(run_label(*recording.info(), damaged), "sink");
}

TEST(NameRuns, LabelsThatAnAxisHasRoomForStandThere) {
  FakeRecording recording(1, 1, 1, 1, 16, 4);
  const int mean = add_run(recording, "keydiff", R"({"anchor":"mean"})");
  const int median = add_run(recording, "keydiff", R"({"anchor":"median"})");
  const RunNames named = name_runs(*recording.info(), {median, mean});
  EXPECT_THAT(named.names, ElementsAre("keydiff, anchor median", "keydiff, anchor mean"));
  EXPECT_EQ(named.key, "");
}

TEST(NameRuns, LongerOnesAreInTheKey) {
  FakeRecording recording(1, 1, 1, 1, 16, 4);
  const int mean = add_run(recording, "keydiff", R"({"anchor":"mean","metric":"cosine"})");
  const int median = add_run(recording, "keydiff", R"({"anchor":"median","metric":"dot"})");
  const int sink = add_run(recording, "sink", "{}");
  const RunNames named = name_runs(*recording.info(), {mean, median, sink});
  EXPECT_THAT(named.names, ElementsAre("keydiff", "keydiff-2", "sink-3"));
  EXPECT_EQ(named.key, " keydiff: anchor mean, metric cosine. keydiff-2: anchor median, metric dot.");
}

TEST(RunLabel, TheBudgetIsSaidWhereItIsOne) {
  FakeRecording recording(1, 1, 1, 1, 16, 4);
  const int none = add_run(recording, "none", "{}", 0);
  const int keydiff = add_run(recording, "keydiff", "{}");
  const int sink = add_run(recording, "sink", "{}");
  EXPECT_EQ(describe_budget(*recording.info(), {none, keydiff, sink}), ", N = 8, B = 4");
  const int large = add_run(recording, "tova", "{}", 12);
  EXPECT_EQ(describe_budget(*recording.info(), {keydiff, large}), ", B = 4");
  EXPECT_EQ(describe_budget(*recording.info(), {none}), "");
}

std::string name_of(std::string_view bytes) {
  return std::string(token_class_names()[static_cast<std::size_t>(token_class(bytes))]);
}

TEST(TokenClass, IsThatOfTheFirstCharacterThatCanBeSeen) {
  for (const char* text : {"the", " the", "\n the", "\xC3\xA9t\xC3\xA9", "\xE6\x97\xA5", " I'm", "\xCC\x81"})
    EXPECT_EQ(name_of(text), "letters") << text;
  for (const char* text : {"7", " 1984", "\xD9\xA3", "\xC2\xBD", "3rd"})
    EXPECT_EQ(name_of(text), "digits") << text;
  for (const char* text :
       {",", " \"", "\xE2\x80\x9CHe", "...", "$", "\xE2\x82\xAC", "<", "->", "\xF0\x9F\x98\x80"})
    EXPECT_EQ(name_of(text), "punctuation") << text;
}

TEST(TokenClass, OfWhiteAloneAsksForALineBreak) {
  for (const char* text : {" ", "   ", "\t", "\xC2\xA0", "\xE3\x80\x80"})
    EXPECT_EQ(name_of(text), "space") << text;
  for (const char* text : {"\n", "\n\n", " \r\n", "\n  "}) EXPECT_EQ(name_of(text), "newline") << text;
}

TEST(TokenClass, OfControlTokensAndPartsOfCharactersIsSpecial) {
  for (const char* text : {"", "<s>", "<|endoftext|>", "</s>", "[SEP]", "\xE2\x82", "\xA9", "\x01"})
    EXPECT_EQ(name_of(text), "special") << text;
  EXPECT_EQ(name_of("[1]"), "punctuation");
  EXPECT_EQ(name_of("<>"), "punctuation");
}

TEST(TokenLabel, ShowsALeadingSpace) {
  EXPECT_EQ(token_label(" the"), "·the");
  EXPECT_EQ(token_label("a b"), "a b");
}

TEST(TokenLabel, NamesControlCharacters) {
  EXPECT_EQ(token_label("\n"), "↵");
  EXPECT_EQ(token_label("\t\r"), "⇥<0D>");
  EXPECT_EQ(token_label(std::string_view("\0x", 2)), "<00>x");
}

TEST(TokenLabel, KeepsUtf8AndNamesOtherBytes) {
  EXPECT_EQ(token_label("naïve €"), "naïve €");
  EXPECT_EQ(token_label("\xE2\x82"), "<E2><82>");          // the start of a euro sign
  EXPECT_EQ(token_label("\xC0\xAF"), "<C0><AF>");          // overlong
  EXPECT_EQ(token_label("\xED\xA0\x80"), "<ED><A0><80>");  // a surrogate
  EXPECT_EQ(token_label("\xF0\x9F\x98\x80"), "\xF0\x9F\x98\x80");
}

TEST(TextLabel, KeepsSpaces) { EXPECT_EQ(text_label(" the\n"), " the↵"); }

TEST(IsHardWrapped, KnowsProseThatWasBrokenToAWidth) {
  const std::string line(60, 'a');
  EXPECT_TRUE(is_hard_wrapped(line + "\n" + line + "\n" + line + "\nthe end\n"));
  EXPECT_FALSE(is_hard_wrapped(line + "\n" + line + "\n")) << "too little to tell";
  EXPECT_FALSE(is_hard_wrapped("a\nb\nc\nd\n"));
  const std::string code = "    " + line;
  EXPECT_FALSE(is_hard_wrapped(code + "\n" + code + "\n" + code + "\n")) << "indented";
}

TEST(BreaksLine, PassesOverSingleBreaksOnlyWhereTextFlows) {
  for (const bool flows : {false, true}) {
    EXPECT_FALSE(breaks_line("word", "", flows));
    EXPECT_EQ(breaks_line("\n", "word", flows), !flows);
    EXPECT_TRUE(breaks_line("\n", "end.\n", flows)) << "a blank line";
    EXPECT_TRUE(breaks_line("\n\n", "word", flows));
  }
}

}  // namespace

}  // namespace keyscope::figures
