#include "app/drawing/page_layout.hpp"

#include <memory>

#include <gtest/gtest.h>

#include "app/drawing/cairo_painter.hpp"
#include "app/figures/page_axes.hpp"
#include "app/figures/page_colour_bar.hpp"
#include "app/figures/registry.hpp"
#include "tests/app/figures/fake_recording.hpp"

namespace keyscope::figures {
namespace {

struct Destroy {
  void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
  void operator()(cairo_t* cairo) const { cairo_destroy(cairo); }
};

class PageLayoutAt : public ::testing::TestWithParam<std::tuple<std::string, double>> {
 protected:
  static Figure build(const std::string& name) {
    FakeRecording recording(1, 2, 1, 8, 200, 50);
    recording.add_run("none", 0);
    recording.add_run("keydiff", 60);
    recording.add_run("sink", 60);
    recording.fill(1);
    FigureRequest request;
    request.name = name;
    request.retained_only = true;  // the longest label
    return build_figure(recording, request);
  }

  std::unique_ptr<cairo_surface_t, Destroy> surface_{cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1)};
  std::unique_ptr<cairo_t, Destroy> cairo_{cairo_create(surface_.get())};
};

TEST_P(PageLayoutAt, LabelsFitBesideTheirPlots) {
  const auto [name, inches] = GetParam();
  const Figure figure = build(name);
  const PageLayout page = lay_out_page(cairo_.get(), figure, inches * 72);
  double before = 0;  // where the last panel ended
  for (std::size_t i = 0; i < figure.panels.size(); ++i) {
    const Panel& panel = figure.panels[i];
    const PanelLayout& place = page.panels[i];
    const TextStyle x_style = x_label_style(cairo_.get(), panel, place);
    const TextStyle y_style = y_label_style(cairo_.get(), panel, place.plot.height);
    const TextSize x = measure_text(cairo_.get(), axis_label(panel.x), x_style);
    const TextSize y = measure_text(cairo_.get(), axis_label(panel.y), y_style);
    double ticks = 0;
    for (const Tick& tick : y_ticks(panel, place.ranges, place.plot.height))
      ticks = std::max(ticks, measure_text(cairo_.get(), tick.label, {kTickSize}).width);
    EXPECT_GE(x_ticks(panel, place.ranges, place.plot.width).size(), 2U);
    EXPECT_GE(y_ticks(panel, place.ranges, place.plot.height).size(), 2U);
    EXPECT_GE(x_style.size_pt, kLeastLabelSize);
    EXPECT_LE(y.width, place.plot.height + 0.1) << "the y label is no longer than its axis";
    if (place.y_labels) {
      EXPECT_GE(place.plot.x - ticks - y.height - kTickLength - kTickGap - 3, kPageMargin - 0.1);
    }
    const double centre = place.plot.x + place.plot.width / 2;
    EXPECT_GE(centre - x.width / 2, kPageMargin - 0.1);
    EXPECT_LE(centre + x.width / 2, page.width - kPageMargin + 0.1);
    if (place.x_labels) {
      EXPECT_LE(place.plot.bottom() + kTickLength + kTickGap + x.height, place.cell.bottom() + 0.1);
    }
    if (panel.heatmap) {
      const double bar = colour_bar_extent(cairo_.get(), *panel.heatmap, place.plot.height);
      EXPECT_LE(place.plot.right() + bar, page.width - kPageMargin + 0.1);
    }
    EXPECT_GT(place.plot.width, 30);
    before = std::max(before, place.cell.bottom());
  }
  EXPECT_GE(page.caption_y, before);
}

INSTANTIATE_TEST_SUITE_P(Widths, PageLayoutAt,
                         ::testing::Combine(::testing::Values("keyspace", "cosine-matrix", "attention",
                                                              "diversity", "score-attention"),
                                            ::testing::Values(kLeastInches, kSingleColumnInches,
                                                              kDoubleColumnInches)));

}  // namespace
}  // namespace keyscope::figures
