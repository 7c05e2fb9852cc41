#include "app/window/printed_key.hpp"

#include <GLFW/glfw3.h>
#include <gtest/gtest.h>

namespace keyscope::window {
namespace {

TEST(PrintedKey, LettersGoByWhatIsPrintedOnThem) {
  EXPECT_EQ(printed_key(GLFW_KEY_Z, "z"), GLFW_KEY_Z);
  EXPECT_EQ(printed_key(GLFW_KEY_Y, "z"), GLFW_KEY_Z) << "QWERTZ";
  EXPECT_EQ(printed_key(GLFW_KEY_W, "z"), GLFW_KEY_Z) << "AZERTY";
  EXPECT_EQ(printed_key(GLFW_KEY_SEMICOLON, "m"), GLFW_KEY_M) << "AZERTY";
  EXPECT_EQ(printed_key(GLFW_KEY_Q, "A"), GLFW_KEY_A);
}

TEST(PrintedKey, AnotherSignOnALettersPlaceIsNoLetter) {
  EXPECT_EQ(printed_key(GLFW_KEY_Q, ";"), GLFW_KEY_UNKNOWN) << "Dvorak has it elsewhere";
}

TEST(PrintedKey, AllElseGoesByItsPlace) {
  EXPECT_EQ(printed_key(GLFW_KEY_1, "&"), GLFW_KEY_1) << "AZERTY prints digits on Shift";
  EXPECT_EQ(printed_key(GLFW_KEY_LEFT, ""), GLFW_KEY_LEFT);
  EXPECT_EQ(printed_key(GLFW_KEY_SLASH, "-"), GLFW_KEY_SLASH);
  EXPECT_EQ(printed_key(GLFW_KEY_M, "\xD0\xBC"), GLFW_KEY_M) << "of another script: by place";
}

}  // namespace
}  // namespace keyscope::window
