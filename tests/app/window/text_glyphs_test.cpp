#include "app/panels/text_glyphs.hpp"

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/figures/fake_recording.hpp"

namespace keyscope::window {
namespace {

using ::testing::ElementsAre;

bool in_font(char32_t character) { return character < 0x530; }  // Latin, Greek, Cyrillic

struct Shown {
  explicit Shown(std::vector<std::string> tokens) {
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
  EXPECT_TRUE(glyphs.take(shown.state, in_font));
  EXPECT_THAT(glyphs.found(), ElementsAre(U'ש', U'字'));
  EXPECT_FALSE(glyphs.take(shown.state, in_font)) << "nothing came since";
}

TEST(TextGlyphs, OfATextThatGrowsOnlyWhatIsNewIsRead) {
  const Shown shown({"a", "字"});
  TextGlyphs glyphs;
  EXPECT_TRUE(glyphs.take(shown.state, in_font));
  recording::RunInfo& run = shown.recording->edit_info().runs.front();
  run.generated.id = {7};
  run.generated.text = "한";
  run.generated.offset = {0, 3};
  run.n_tokens = 3;
  EXPECT_TRUE(glyphs.take(shown.state, in_font));
  EXPECT_THAT(glyphs.found(), ElementsAre(U'字', U'한'));
}

TEST(TextGlyphs, AnotherRecordingsJoinThem) {
  TextGlyphs glyphs;
  EXPECT_FALSE(glyphs.take(session::SessionState{}, in_font));
  const Shown first({"字"}), same({"字"}), other({"ש"});
  EXPECT_TRUE(glyphs.take(first.state, in_font));
  EXPECT_FALSE(glyphs.take(same.state, in_font));
  EXPECT_TRUE(glyphs.take(other.state, in_font));
  EXPECT_THAT(glyphs.found(), ElementsAre(U'ש', U'字'));
}

}  // namespace
}  // namespace keyscope::window
