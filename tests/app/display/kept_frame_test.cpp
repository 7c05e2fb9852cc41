// What is kept of a frame and drawn again in parts is, pixel by pixel, what a whole redraw shows.

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "app/display/frame.hpp"
#include "app/window/window_app.hpp"
#include "tests/app/session/settled_session.hpp"

namespace keyscope::window {
namespace {

constexpr int kWidth = 900, kHeight = 640;

WindowApp::Options hidden() {
  WindowApp::Options options;
  options.width = kWidth;
  options.height = kHeight;
  options.scale = 1;
  options.visible = false;
  return options;
}

std::vector<std::uint8_t> pixels_of(const RenderTarget& target) {
  std::vector<std::uint8_t> rgba(std::size_t{4} * kWidth * kHeight);
  glBindFramebuffer(GL_FRAMEBUFFER, target.framebuffer());
  glReadPixels(0, 0, kWidth, kHeight, GL_RGBA, GL_UNSIGNED_BYTE, rgba.data());
  return rgba;
}

class KeptFrameTest : public ::testing::Test {
 protected:
  void SetUp() override {
    shown_.resize(kWidth, kHeight);
    whole_.resize(kWidth, kHeight);
    session().show(session::small_recording());
    ASSERT_TRUE(session::settle(session()));
  }

  session::Session& session() { return app_.session(); }

  // Draws some frames as the window does, and each of them as a whole beside.
  void expect_whole(const std::string& after) {
    ASSERT_TRUE(session::settle(session()));
    for (int frame = 0; frame < 3; ++frame) {
      glBindFramebuffer(GL_FRAMEBUFFER, shown_.framebuffer());
      app_.draw_frame(kWidth, kHeight);
      const auto shown = pixels_of(shown_);
      KeptFrame anew;
      glBindFramebuffer(GL_FRAMEBUFFER, whole_.framebuffer());
      anew.draw(*ImGui::GetDrawData(), app_.ui().theme().background, kWidth, kHeight);
      EXPECT_TRUE(shown == pixels_of(whole_)) << "after " << after << ", frame " << frame;
    }
  }

  WindowApp app_{hidden()};
  RenderTarget shown_, whole_;
};

TEST_F(KeptFrameTest, ShowsWhatAWholeRedrawShows) {
  expect_whole("opening");
  session().select_head(1, 2);
  expect_whole("another head");
  for (const std::int64_t block : {0, 3, 1}) {
    session().set_block(block);
    expect_whole("a block");
  }
  for (const float x : {250.0F, 340.0F, 430.0F, 520.0F, 610.0F}) {
    app_.point_at(Pixel{x, 300});
    expect_whole("pointing at points");
  }
  session().lock(7);
  expect_whole("holding a token");
  app_.ui().keyspace().view().pan(31, -17);
  expect_whole("panning");
  session().toggle_beside({0, 0});
  expect_whole("a run beside");
  for (const char* view : {"cosine-matrix", "score-attention", "text", "diversity", "keyspace"}) {
    session().choose_view(view);
    expect_whole(view);
  }
  app_.ui().dialogs().open(Dialog::kHelp);
  expect_whole("a dialog");
  app_.ui().dialogs().close();
  expect_whole("its closing");
  app_.ui().set_theme(true);
  expect_whole("another theme");
}

TEST_F(KeptFrameTest, DrawsNothingWhereNothingChanges) {
  expect_whole("opening");
  KeptFrame frame;
  glBindFramebuffer(GL_FRAMEBUFFER, whole_.framebuffer());
  take_changed_textures();
  frame.draw(*ImGui::GetDrawData(), app_.ui().theme().background, kWidth, kHeight);
  EXPECT_EQ(frame.share_drawn(), 1);
  take_changed_textures();
  frame.draw(*ImGui::GetDrawData(), app_.ui().theme().background, kWidth, kHeight);
  EXPECT_EQ(frame.share_drawn(), 0);
}

}  // namespace
}  // namespace keyscope::window
