#include "app/drawing/cairo_painter.hpp"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>

#include <cairo.h>
#include <glib.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include "app/drawing/page_layout.hpp"
#include "app/figures/catalogue.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "tests/support/fake_recording.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/small_disk.hpp"

namespace keyscope::figures {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Figure build(const std::string& name, int components = 2, std::int64_t n_tokens = 200) {
  FakeRecording recording(1, 2, 1, 8, n_tokens, 50);
  recording.add_run("none", 0);
  recording.add_run("keydiff", 60);
  recording.add_run("sink", 60);
  recording.fill(1);
  FigureRequest request;
  request.name = name;
  request.components = components;
  request.density = KeyDensity::kPoints;
  return build_figure(recording, request);
}

// Well-formed as XML; comes back with all of its text.
std::string parse_xml(const std::string& xml) {
  std::string text;
  GMarkupParser parser{};
  parser.text = [](GMarkupParseContext*, const char* part, gsize size, gpointer all, GError**) {
    static_cast<std::string*>(all)->append(part, size);
  };
  GMarkupParseContext* context = g_markup_parse_context_new(&parser, G_MARKUP_DEFAULT_FLAGS, &text, nullptr);
  const bool sound =
      g_markup_parse_context_parse(context, xml.data(), static_cast<gssize>(xml.size()), nullptr) &&
      g_markup_parse_context_end_parse(context, nullptr);
  g_markup_parse_context_free(context);
  EXPECT_TRUE(sound);
  return text;
}

// Pixels of a png close to a colour.
struct Picture {
  explicit Picture(const std::filesystem::path& path)
      : surface(cairo_image_surface_create_from_png(path.c_str()), cairo_surface_destroy),
        width(cairo_image_surface_get_width(surface.get())),
        height(cairo_image_surface_get_height(surface.get())) {}

  std::uint32_t pixel(int x, int y) const {
    const unsigned char* data = cairo_image_surface_get_data(surface.get());
    const std::ptrdiff_t stride = cairo_image_surface_get_stride(surface.get());
    return *reinterpret_cast<const std::uint32_t*>(data + y * stride + std::ptrdiff_t{4} * x) & 0xFFFFFFU;
  }

  int count(Colour colour, int tolerance = 24) const {
    int n = 0;
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x) {
        const std::uint32_t p = pixel(x, y);
        const auto near = [&](unsigned a, unsigned b) {
          return std::abs(static_cast<int>(a) - static_cast<int>(b)) <= tolerance;
        };
        n += near(p >> 16, colour.r) && near(p >> 8 & 0xFF, colour.g) && near(p & 0xFF, colour.b);
      }
    return n;
  }

  std::unique_ptr<cairo_surface_t, void (*)(cairo_surface_t*)> surface;
  int width, height;
};

TEST(CanvasCairo, PngHasTheAskedWidthAndTheFiguresColours) {
  const test::ScratchFolder folder;
  PageOptions options;
  options.width_inches = kSingleColumnInches;
  options.dpi = 200;
  Figure figure = build("keyspace");
  figure.panels = {figure.panels[1]};  // keydiff
  draw_to_file(figure, folder.file("a.png"), options);
  const Picture picture(folder.file("a.png"));
  EXPECT_EQ(picture.width, 680);
  EXPECT_GT(picture.height, 340);
  EXPECT_GT(picture.count(kBlue, 40), 300) << "retained";
  EXPECT_GT(picture.count(kOrange, 40), 300) << "evicted";
  EXPECT_GT(picture.count(kGreen), 50) << "anchor";
  EXPECT_GT(picture.count(kPurple), 50) << "mean query";
  EXPECT_EQ(picture.pixel(0, 0), 0xFFFFFFU);
}

// 200 dpi are 7874 pixels a metre; the checksum is zlib.crc32's of the chunk.
TEST(CanvasCairo, PngSaysHowLargeItIsOnPaper) {
  const test::ScratchFolder folder;
  PageOptions options;
  options.dpi = 200;
  draw_to_file(build("keyspace"), folder.file("a.png"), options);
  const std::string chunk("\0\0\0\x09pHYs\0\0\x1e\xc2\0\0\x1e\xc2\x01\x6e\xd0\x75\x3e", 21);
  EXPECT_EQ(read_file(folder.file("a.png")).substr(33, 21), chunk);
}

TEST(CanvasCairo, DarkIsDark) {
  const test::ScratchFolder folder;
  PageOptions options;
  options.dark = true;
  options.dpi = 72;
  draw_to_file(build("keyspace"), folder.file("a.png"), options);
  EXPECT_LT(Picture(folder.file("a.png")).pixel(0, 0) & 0xFFU, 0x40U);
}

// WCAG's contrast of two colours: 1 to 21; 3 is what graphics need.
double contrast(Colour a, Colour b) {
  const auto luminance = [](Colour colour) {
    const auto linear = [](std::uint8_t value) {
      const double share = value / 255.0;
      return share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * linear(colour.r) + 0.7152 * linear(colour.g) + 0.0722 * linear(colour.b);
  };
  const double x = luminance(a), y = luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

TEST(Theme, SeriesStandOutOfADarkGround) {
  for (const Colour colour : {kBlue, kOrange, kGreen, kPurple, kBlack, kSkyBlue, kVermillion, kGrey})
    EXPECT_GT(contrast(kDarkTheme.of_series(colour), kDarkTheme.background), 4);
  EXPECT_EQ(kLightTheme.of_series(kBlue), kBlue);
  EXPECT_EQ(kLightTheme.of_series(kBlack), kBlack);
}

// A single bright column among 3,000 must survive on a page of far fewer pixels.
TEST(CanvasCairo, AnAttentionSinkDoesNotVanishOnASmallPage) {
  const test::ScratchFolder folder;
  Figure figure = build("attention");
  Heatmap& heatmap = *figure.panels[0].heatmap;
  heatmap.values = RowMatrixF::Zero(3000, 3000);
  heatmap.values.col(1501).setOnes();
  heatmap.x_end = heatmap.y_end = 3000;
  heatmap.logarithmic = false;
  heatmap.low = 0, heatmap.high = 1;
  PageOptions options;
  options.dpi = 72;
  options.width_inches = 3;
  draw_to_file(figure, folder.file("a.png"), options);
  EXPECT_GT(Picture(folder.file("a.png")).count({0xFE, 0xE7, 0x24}, 12), 100);
}

TEST(CanvasCairo, SvgIsXmlWithTheFiguresWords) {
  const test::ScratchFolder folder;
  Figure figure = build("keyspace");
  figure.title = "a < b & \"c\" \x01 \xFF";
  draw_to_file(figure, folder.file("a.svg"));
  const std::string text = parse_xml(read_file(folder.file("a.svg")));
  EXPECT_THAT(text, HasSubstr("a < b & \"c\""));
  EXPECT_THAT(text, HasSubstr("PC 1"));
  EXPECT_THAT(text, HasSubstr("anchor (mean key)"));
  EXPECT_THAT(text, HasSubstr("60 of 200 keys retained"));
}

TEST(CanvasCairo, ManyPointsBecomeAnImageSoThatSvgStaysSmall) {
  const test::ScratchFolder folder;
  PageOptions options;
  options.dpi = 100;
  Figure figure = build("keyspace", 2, 9000);
  figure.panels.resize(1);
  draw_to_file(figure, folder.file("many.svg"), options);
  EXPECT_THAT(read_file(folder.file("many.svg")), HasSubstr("<image"));
  EXPECT_LT(std::filesystem::file_size(folder.file("many.svg")), 1'000'000U);
  draw_to_file(build("keyspace"), folder.file("few.svg"), options);
  EXPECT_THAT(read_file(folder.file("few.svg")), Not(HasSubstr("<image")));
}

TEST(CanvasCairo, EveryFigureInEveryFormat) {
  const test::ScratchFolder folder;
  PageOptions options;
  options.dpi = 72;
  for (const std::string name : {"keyspace", "cosine-matrix", "attention"})
    for (const int components : {2, 3})
      for (const std::string extension : {".png", ".svg", ".PDF"}) {
        const auto path = folder.file(name + std::to_string(components) + extension);
        draw_to_file(build(name, components), path, options);
        EXPECT_GT(std::filesystem::file_size(path), 3000U) << path;
      }
  EXPECT_THAT(read_file(folder.file("attention2.PDF")), StartsWith("%PDF"));
}

TEST(CanvasCairo, StrangeFiguresDoNotCrash) {
  const test::ScratchFolder folder;
  PageOptions options;
  options.replace = true;
  options.dpi = 50;
  const auto draw = [&](const Figure& figure) {
    for (const char* name : {"a.png", "a.svg", "a.pdf"})
      EXPECT_NO_THROW(draw_to_file(figure, folder.file(name), options));
  };
  draw({});
  Figure figure = build("keyspace", 3);
  for (PointSeries& series : figure.panels[0].points) std::ranges::fill(series.x, NAN);
  draw(figure);
  figure = build("cosine-matrix");
  figure.panels[0].heatmap->values.setConstant(NAN);
  draw(figure);
  figure.panels[0].heatmap->values.resize(0, 0);
  draw(figure);
  figure = build("keyspace");
  figure.title = "\xFF" + std::string(3000, 'x');
  figure.panels[0].points[1].label = std::string(500, 'y');
  figure.panels[0].points[1].x[0] = std::numeric_limits<float>::infinity();
  figure.panels[0].points[1].y.back() = 1e30F;
  draw(figure);
  figure.columns = -3;
  draw(figure);
}

TEST(CanvasCairo, FormatsAreTold) {
  EXPECT_EQ(format_of("x.SVG"), FileFormat::kSvg);
  EXPECT_THROW(format_of("x.jpg"), UsageError);
  EXPECT_THROW(format_of("x"), UsageError);
}

TEST(CanvasCairo, WhatCannotBeWrittenIsSaidAndLeavesNothing) {
  const test::ScratchFolder folder;
  const Figure figure = build("keyspace");
  EXPECT_THROW(draw_to_file(figure, folder.file("no/such.png")), FileError);
  for (const double inches : {99.0, 2.4, std::nan("")}) {
    PageOptions page;
    page.width_inches = inches;
    EXPECT_THROW(draw_to_file(figure, folder.file("a.png"), page), UsageError);
  }
  {
    const SmallDisk disk(4096);
    EXPECT_THROW(draw_to_file(figure, folder.file("a.png")), FileError);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  std::ofstream(folder.file("a.png")) << "mine";
  EXPECT_THROW(draw_to_file(figure, folder.file("a.png")), FileError);
  EXPECT_EQ(read_file(folder.file("a.png")), "mine");
}

// Pango looks for fonts in threads of its own, and GLib would abort.
TEST(CanvasCairo, WhereNoThreadCanBeStartedItSaysSo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, std::size_t{1} << 46);
        pthread_setattr_default_np(&attributes);
        draw_page(build("keyspace"), {});
        std::_Exit(0);
      },
      testing::ExitedWithCode(1), "^keyscope: creating thread ");
}

}  // namespace
}  // namespace keyscope::figures
