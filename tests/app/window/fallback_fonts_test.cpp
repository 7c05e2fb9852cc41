#include "app/window/fallback_fonts.hpp"

#include <filesystem>

#include <gtest/gtest.h>

namespace keyscope::window {
namespace {

constexpr char32_t kGreek = 0x3B1, kArrow = 0x2192, kUnassigned = 0x0378;

TEST(FallbackFonts, EveryCharacterIsOfOneFont) {
  const std::set<char32_t> wanted{kGreek, kArrow, kUnassigned};
  std::set<char32_t> found;
  for (const FallbackFont& font : fallback_fonts(wanted)) {
    EXPECT_TRUE(std::filesystem::is_regular_file(font.path)) << font.path;
    EXPECT_FALSE(font.glyphs.empty()) << font.path;
    for (const char32_t character : font.glyphs) EXPECT_TRUE(found.insert(character).second);
  }
  EXPECT_EQ(found, (std::set<char32_t>{kGreek, kArrow})) << "DejaVu, which figures need, has both";
}

TEST(FallbackFonts, OfNothingAreNone) { EXPECT_TRUE(fallback_fonts({}).empty()); }

}  // namespace
}  // namespace keyscope::window
