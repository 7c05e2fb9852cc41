#include "app/panels/text_view.hpp"

#include <memory>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_recording.hpp"

namespace keyscope::window {

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

bool in_font(char32_t character) { return character < 0x530; }  // Latin, Greek, Cyrillic

struct Shown {
  explicit Shown(const std::vector<std::string>& tokens) {
    const auto n = static_cast<std::int64_t>(tokens.size());
    recording = std::make_shared<figures::FakeRecording>(1, 1, 1, 1, n, n);
    recording->add_run("none", 0);
    recording::TokenText& prompt = recording->edit_info().prompt;
    prompt.text.clear();
    prompt.offset = {0};
    for (const std::string& token : tokens) {
      prompt.text += token;
      prompt.offset.push_back(static_cast<std::int64_t>(prompt.text.size()));
    }
    state.recording = recording;
    state.info = recording->info();
  }

  std::shared_ptr<figures::FakeRecording> recording;
  session::SessionState state;
};

TEST(TextGlyphs, AreThoseThatFontsDoNotHaveAnyway) {
  const Shown shown({"a", "Жé", "字字", " ש", "\xE5\xAD"});  // the last: two bytes of three
  TextGlyphs glyphs;
  EXPECT_THAT(glyphs.take(shown.state, in_font), ElementsAre(U'ש', U'字'));
  EXPECT_THAT(glyphs.take(shown.state, in_font), IsEmpty()) << "nothing came since";
}

TEST(TextGlyphs, OfATextThatGrowsOnlyWhatIsNewIsRead) {
  const Shown shown({"a", "字"});
  TextGlyphs glyphs;
  EXPECT_THAT(glyphs.take(shown.state, in_font), ElementsAre(U'字'));
  recording::RunInfo& run = shown.recording->edit_info().runs.front();
  run.generated.id = {7};
  run.generated.text = "한";
  run.generated.offset = {0, 3};
  run.n_tokens = 3;
  EXPECT_THAT(glyphs.take(shown.state, in_font), ElementsAre(U'한'));
}

TEST(TextGlyphs, AnotherRecordingsJoinThem) {
  TextGlyphs glyphs;
  EXPECT_THAT(glyphs.take(session::SessionState{}, in_font), IsEmpty());
  const Shown first({"字"}), same({"字"}), other({"ש"});
  EXPECT_THAT(glyphs.take(first.state, in_font), ElementsAre(U'字'));
  EXPECT_THAT(glyphs.take(same.state, in_font), IsEmpty());
  EXPECT_THAT(glyphs.take(other.state, in_font), ElementsAre(U'ש'));
}

// Every character is ten pixels wide.
TextLayout lay_out(const std::vector<std::string>& labels, float width, std::vector<bool> breaks = {}) {
  breaks.resize(labels.size());
  return {labels, breaks, width,
          [](const std::string& text) { return 10 * static_cast<float>(text.size()); }};
}

TEST(TextLayout, FillsLinesAndBeginsNoneWithASpace) {
  const TextLayout text = lay_out({"ab", " cd", " ef", "g"}, 50);
  EXPECT_EQ(text.n_lines(), 2);
  EXPECT_EQ(text.first_of(1), 2);
  EXPECT_EQ(text.label(2), "ef");
  EXPECT_EQ(text.place(2).x, 0);
  EXPECT_EQ(text.place(3).x, 20);
  EXPECT_EQ(text.place(1).x, 20);
  EXPECT_EQ(text.first_of(2), 4) << "behind the end";
}

TEST(TextLayout, KeepsTokensOfAWordTogether) {
  const TextLayout text = lay_out({"one", " two", " th", "ree", " four"}, 110);
  EXPECT_EQ(text.n_lines(), 2);
  EXPECT_EQ(text.first_of(1), 2) << "with the beginning of the word";
  EXPECT_EQ(text.label(2), "th");
  EXPECT_EQ(text.place(3).x, 20);
  const TextLayout without_spaces = lay_out({"字", "字", "字", "字"}, 70);
  EXPECT_EQ(without_spaces.first_of(1), 2) << "where there are no words, lines are filled";
}

TEST(TextLayout, EndsALineWithItsBreak) {
  const TextLayout text =
      lay_out({"a", "↵", "b", "↵", "↵", "c"}, 500, {false, true, false, true, true, false});
  EXPECT_EQ(text.n_lines(), 4);
  EXPECT_EQ(text.first_of(1), 2);
  EXPECT_EQ(text.first_of(2), 4);
  EXPECT_EQ(text.first_of(3), 5);
}

TEST(TextLayout, FindsTheTokenUnderTheCursor) {
  const TextLayout text = lay_out({"ab", "cd", "ef"}, 40);
  EXPECT_EQ(text.token_at(0, 19), 0);
  EXPECT_EQ(text.token_at(0, 20), 1);
  EXPECT_EQ(text.token_at(1, 5), 2);
  EXPECT_EQ(text.token_at(1, 25), std::nullopt);
  EXPECT_EQ(text.token_at(-1, 5), std::nullopt);
  EXPECT_EQ(text.token_at(2, 5), std::nullopt);
}

TEST(TextLayout, PlacesEveryTokenOnceWithinTheWidth) {
  std::mt19937 random(3);
  std::uniform_int_distribution<int> length(0, 9), coin(0, 20);
  std::vector<std::string> labels;
  std::vector<bool> breaks;
  for (int i = 0; i < 5000; ++i) {
    labels.push_back(std::string(length(random), 'x'));
    breaks.push_back(coin(random) == 0);
  }
  const TextLayout text = lay_out(labels, 200, breaks);
  ASSERT_EQ(text.n_tokens(), 5000);
  std::int64_t expected = 0;
  for (std::int64_t line = 0; line < text.n_lines(); ++line) {
    float end = 0;
    for (std::int64_t token = text.first_of(line); token < text.first_of(line + 1); ++token) {
      EXPECT_EQ(token, expected++);
      EXPECT_EQ(text.place(token).line, line);
      EXPECT_EQ(text.place(token).x, end);
      end += text.place(token).width;
    }
    EXPECT_LE(end, 200);
  }
  EXPECT_EQ(expected, 5000);
}

// What was appended piece by piece stands where it stands when all is laid out at once.
TEST(TextLayout, GrowsAsIfItHadBeenWhole) {
  const auto measure = [](const std::string& text) { return 10 * static_cast<float>(text.size()); };
  std::mt19937 random(7);
  std::uniform_int_distribution<std::size_t> length(1, 9), coin(0, 20), piece(0, 4);
  std::vector<std::string> labels;
  std::vector<bool> breaks;
  for (int i = 0; i < 2000; ++i) {
    labels.emplace_back(length(random), 'x');
    if (coin(random) < 8) labels.back().front() = ' ';
    breaks.push_back(coin(random) == 0);
  }
  const TextLayout whole = lay_out(labels, 200, breaks);
  TextLayout grown({}, {}, 200, measure);
  for (std::size_t at = 0; at < labels.size();) {
    const std::size_t end = std::min(labels.size(), at + piece(random));
    const auto from = static_cast<std::ptrdiff_t>(at), to = static_cast<std::ptrdiff_t>(end);
    grown.append({labels.begin() + from, labels.begin() + to}, {breaks.begin() + from, breaks.begin() + to},
                 measure);
    at = end;
  }
  ASSERT_EQ(grown.n_tokens(), whole.n_tokens());
  EXPECT_EQ(grown.n_lines(), whole.n_lines());
  for (std::int64_t token = 0; token < whole.n_tokens(); ++token) {
    EXPECT_EQ(grown.label(token), whole.label(token));
    EXPECT_EQ(grown.place(token).x, whole.place(token).x);
    EXPECT_EQ(grown.place(token).line, whole.place(token).line);
  }
}

TEST(TextLayout, OfNothingHasNoLines) { EXPECT_EQ(lay_out({}, 100).n_lines(), 0); }

}  // namespace

}  // namespace keyscope::window
