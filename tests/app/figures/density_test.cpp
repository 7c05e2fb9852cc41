// Keys counted in hexagons: each once, in the nearest one, and peaks by their tokens.

#include "app/figures/density.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/figures/catalogue.hpp"
#include "app/figures/keyspace_data.hpp"
#include "tests/support/fake_recording.hpp"

namespace keyscope::figures {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Extent kAll{-1e9, 1e9, -1e9, 1e9};

PointSeries series(const std::string& id, Colour colour, std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  PointSeries points;
  points.id = id;
  points.colour = colour;
  for (std::size_t i = 0; i < n; ++i) {
    points.x.push_back(10 * normal(random));
    points.y.push_back(3 * normal(random));
    points.token.push_back(static_cast<std::int32_t>(i));
  }
  return points;
}

Panel cloud() {
  Panel panel;
  panel.points = {series("evicted", kOrange, 400, 1), series("retained", kBlue, 200, 2),
                  series("queries", kGrey, 50, 3)};
  return panel;
}

std::int64_t counted(const Density& density) {
  std::int64_t n = 0;
  for (const DensityCell& cell : density.cells) n += cell.n;
  return n;
}

TEST(Density, CountsEveryKeyOnceAndNoQuery) {
  EXPECT_EQ(counted(density_of(cloud(), {}, kAll, 5, 20, 7, 0)), 600);
  EXPECT_EQ(counted(density_of(cloud(), {"evicted"}, kAll, 5, 20, 7, 0)), 200);
  const auto right = density_of(cloud(), {}, {0, 1e9, -1e9, 1e9}, 5, 20, 7, 0);
  const auto left = density_of(cloud(), {}, {-1e9, 0, -1e9, 1e9}, 5, 20, 7, 0);
  EXPECT_EQ(counted(right) + counted(left), 600);
}

// Slow and obvious: of all hexagons that were given the nearest is the key's, and it lies within the radius.
TEST(Density, AKeyIsInTheNearestHexagon) {
  const Panel panel = cloud();
  const double x_unit = 5, y_unit = 20, radius = 7;
  const auto density = density_of(panel, {}, kAll, x_unit, y_unit, radius, 0);
  std::vector<std::int64_t> n(density.cells.size(), 0);
  for (const PointSeries& points : panel.points) {
    if (!is_of_keys(points)) continue;
    for (std::size_t i = 0; i < points.x.size(); ++i) {
      double least = INFINITY;
      std::size_t nearest = 0;
      for (std::size_t c = 0; c < density.cells.size(); ++c) {
        const double distance = std::hypot((density.cells[c].x - points.x[i]) * x_unit,
                                           (density.cells[c].y - points.y[i]) * y_unit);
        if (distance < least) least = distance, nearest = c;
      }
      EXPECT_LE(least, radius * (1 + 1e-6));
      ++n[nearest];
    }
  }
  for (std::size_t c = 0; c < n.size(); ++c) EXPECT_EQ(n[c], density.cells[c].n);
}

TEST(Density, AHexagonHasTheMeanColourAndIsTheMoreOpaqueTheFuller) {
  Panel panel;
  PointSeries a, b;
  a.id = "evicted", a.colour = {200, 100, 0}, b.id = "retained", b.colour = {0, 100, 200};
  a.x = a.y = {0}, a.token = {0};
  b.x = {0, 100}, b.y = {0, 100}, b.token = {1, 2};
  panel.points = {a, b};
  auto cells = density_of(panel, {}, kAll, 1, 1, 5, 0).cells;
  std::ranges::sort(cells, {}, &DensityCell::x);
  ASSERT_THAT(cells, SizeIs(2));
  EXPECT_EQ(cells[0].colour, (Colour{100, 100, 100}));
  EXPECT_EQ(cells[1].colour, b.colour);
  EXPECT_GT(cells[0].opacity, cells[1].opacity);
  EXPECT_EQ(cells[0].opacity, 1);
  panel.points[0].faded = panel.points[1].faded = true;
  EXPECT_LT(density_of(panel, {}, kAll, 1, 1, 5, 0).cells.front().opacity, 0.3F);
}

TEST(Density, APeakIsNamedByTheTokenThatIsThereMost) {
  Panel panel;
  PointSeries points;
  points.id = "retained";
  for (std::int32_t i = 0; i < 9; ++i) {
    points.x.push_back(i < 6 ? 0.0F : 100.0F);
    points.y.push_back(0);
    points.token.push_back(i);
  }
  panel.points = {points};
  EXPECT_THAT(density_of(panel, {}, kAll, 1, 1, 5, 4).peaks, IsEmpty()) << "it does not know texts";
  panel.token_text = [](std::int32_t token) {
    return token < 4 ? std::string(" the") : std::to_string(token);
  };
  const auto peaks = density_of(panel, {}, kAll, 1, 1, 5, 4).peaks;
  ASSERT_THAT(peaks, SizeIs(1)) << "where every token is there once none stands for the others";
  EXPECT_EQ(peaks[0].n, 6);
  EXPECT_THAT(peaks[0].label, testing::EndsWith("the 4"));
}

TEST(Density, KeySpacesOfManyKeysAreCounted) {
  EXPECT_FALSE(KeyspaceLook{}.counts(kManyKeys));
  EXPECT_TRUE(KeyspaceLook{}.counts(kManyKeys + 1));
  EXPECT_FALSE((KeyspaceLook{.density = KeyDensity::kPoints}).counts(kManyKeys + 1));
  EXPECT_FALSE((KeyspaceLook{.projection = Projection::kPca3d, .density = KeyDensity::kHexagons}).counts(9));
  FakeRecording recording(1, 2, 1, 8, 40, 8);
  recording.add_run("none", 0);
  recording.fill(1);
  const Figure points = build_figure(recording, {.name = "keyspace"});
  EXPECT_FALSE(points.panels.front().density);
  const Figure counts = build_figure(recording, {.name = "keyspace", .density = KeyDensity::kHexagons});
  EXPECT_TRUE(counts.panels.front().density);
  EXPECT_THAT(counts.panels.front().note, HasSubstr("hexagons"));
}

TEST(Density, OtherComponentsAreTheOnesThatAreNamed) {
  FakeRecording recording(1, 2, 1, 8, 40, 8);
  recording.add_run("none", 0);
  recording.fill(1);
  const Figure space = build_figure(recording, {.name = "keyspace", .components = 3});
  const Figure plane = build_figure(recording, {.name = "keyspace", .projection = Projection::kPca23});
  EXPECT_THAT(plane.panels.front().x.label, HasSubstr("PC 2"));
  EXPECT_THAT(plane.panels.front().y.label, HasSubstr("PC 3"));
  const auto retained = [](const Figure& figure) {
    return *std::ranges::find(figure.panels.front().points, "retained", &PointSeries::id);
  };
  EXPECT_EQ(retained(plane).x, retained(space).y);
  EXPECT_EQ(retained(plane).y, retained(space).z);
}

}  // namespace
}  // namespace keyscope::figures
