#include "app/display/theme.hpp"

#include <cmath>
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

// Relative luminance and contrast of WCAG 2.2.
double luminance(ImU32 colour) {
  const ImVec4 c = ImGui::ColorConvertU32ToFloat4(colour);
  const auto linear = [](double v) { return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4); };
  return 0.2126 * linear(c.x) + 0.7152 * linear(c.y) + 0.0722 * linear(c.z);
}

double contrast(ImU32 a, ImU32 b) {
  const double x = luminance(a), y = luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

TEST(Theme, TextCanBeReadAndControlsBeSeen) {
  for (const bool light : {false, true}) {
    const Theme theme = make_theme(light);
    EXPECT_GE(contrast(theme.text, theme.panel), 7) << light;
    EXPECT_GE(contrast(theme.dim, theme.panel), 4.5) << light;
    EXPECT_GE(contrast(theme.error, theme.panel), 4.5) << light;
    EXPECT_GE(contrast(theme.on_accent, theme.accent), 4.5) << light;
    for (const ImU32 background : {theme.panel, theme.hover})
      EXPECT_GE(contrast(theme.outline, background), 3) << "of a box that is not ticked, " << light;
  }
}

}  // namespace

}  // namespace keyscope::window
