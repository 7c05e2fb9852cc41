// Through the registry, as the command line asks for them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/figures/catalogue.hpp"
#include "app/figures/figure_builders.hpp"
#include "base/errors.hpp"
#include "tests/support/fake_recording.hpp"

namespace keyscope::figures {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

FakeRecording three_layers() {
  FakeRecording recording(3, 4, 2, 4, 32, 8);
  recording.add_run("none", 0);
  recording.add_run("keydiff", 8);
  recording.fill(4);
  return recording;
}

FigureRequest request_for(std::string name, HeadGrid grid) {
  FigureRequest request;
  request.name = std::move(name);
  request.grid = std::move(grid);
  return request;
}

std::string message(const FakeRecording& recording, const FigureRequest& request) {
  try {
    check_request(*recording.info(), request);
    build_figure(recording, request);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(SmallMultiples, EveryCellIsItsHeadsFigure) {
  const FakeRecording recording = three_layers();
  for (const std::string name : {"keyspace", "cosine-matrix", "attention", "score-attention"}) {
    const Figure figure = build_figure(recording, request_for(name, {{2, 0}, {}}));
    EXPECT_EQ(figure.name, name);
    ASSERT_EQ(figure.panels.size(), 4U);
    EXPECT_THAT(figure.multiples->rows, ElementsAre("2", "0"));
    FigureRequest one;
    one.name = name;
    one.runs = figure.view.runs;
    one.layer = 0;
    one.kv_head = 1;
    const Panel alone = build_figure(recording, one).panels.front();
    const Panel& cell = figure.panels.back();
    ASSERT_EQ(cell.points.size(), alone.points.size());
    for (std::size_t s = 0; s < cell.points.size(); ++s) {
      EXPECT_EQ(cell.points[s].x, alone.points[s].x);
      EXPECT_EQ(cell.points[s].y, alone.points[s].y);
    }
    ASSERT_EQ(cell.heatmap.has_value(), alone.heatmap.has_value());
    if (cell.heatmap) {
      // NaN, which no comparison finds equal, as a value of its own.
      const auto known = [](const RowMatrixF& values) {
        return RowMatrixF(values.array().isNaN().select(-9, values));
      };
      EXPECT_EQ(known(cell.heatmap->values), known(alone.heatmap->values));
    }
  }
}

TEST(SmallMultiples, ColumnsAreKvHeadsOrQueryHeads) {
  const FakeRecording recording = three_layers();
  const auto columns = [&](const std::string& name, HeadGrid grid) {
    return build_figure(recording, request_for(name, std::move(grid))).multiples->columns;
  };
  EXPECT_THAT(columns("keyspace", {{0}, {}}), ElementsAre("0", "1"));
  EXPECT_THAT(columns("attention", {{0}, {}}), ElementsAre("0", "2")) << "the first of each group";
  EXPECT_THAT(columns("attention", {{0}, {1}}), ElementsAre("2"));
  EXPECT_THAT(columns("attention", {{0}, {}, true}), ElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(columns("attention", {{0}, {3, 1}, true}), ElementsAre("3", "1"));
}

TEST(SmallMultiples, TheKeySpaceShowsTheFirstRunThatEvicts) {
  const FakeRecording recording = three_layers();
  EXPECT_THAT(build_figure(recording, request_for("keyspace", {})).view.runs, ElementsAre("keydiff"));
  EXPECT_THAT(build_figure(recording, request_for("attention", {})).view.runs, ElementsAre("none"));
}

TEST(SmallMultiples, ColoursMeanTheSameInEveryCell) {
  const Figure figure = build_figure(three_layers(), request_for("attention", {}));
  for (const Panel& panel : figure.panels) {
    EXPECT_EQ(panel.heatmap->low, figure.panels.front().heatmap->low);
    EXPECT_EQ(panel.heatmap->high, figure.panels.front().heatmap->high);
  }
}

TEST(SmallMultiples, LargeMatricesAreCoarserAndTheCaptionSaysSo) {
  FakeRecording recording(1, 1, 1, 2, 600, 600);
  recording.add_run("none", 0);
  recording.fill(1);
  const Figure figure = build_figure(recording, request_for("cosine-matrix", {}));
  EXPECT_EQ(figure.panels.front().heatmap->values.rows(), 200);
  EXPECT_THAT(figure.caption, HasSubstr("showing 200 of 600"));
}

TEST(SmallMultiples, WhatIsNotThereIsRefused) {
  const FakeRecording recording = three_layers();
  EXPECT_THAT(message(recording, request_for("log-volume", {})), HasSubstr("no small multiples"));
  EXPECT_THAT(message(recording, request_for("keyspace", {{0, 5}, {}})), HasSubstr("layer 5"));
  EXPECT_THAT(message(recording, request_for("keyspace", {{}, {2}})), HasSubstr("KV head 2"));
  EXPECT_THAT(message(recording, request_for("attention", {{}, {4}, true})), HasSubstr("query head 4"));
  EXPECT_THAT(message(recording, request_for("keyspace", {{}, {0}, true})), HasSubstr("is of KV heads"));
  FigureRequest request = request_for("keyspace", {});
  request.runs = {"none", "keydiff"};
  EXPECT_THAT(message(recording, request), HasSubstr("shows one run"));
  request.runs = {"keydiff"};
  request.block = 4;
  EXPECT_THAT(message(recording, request), HasSubstr("blocks 0 to 3"));
  request.block = 1;
  request.components = 3;
  EXPECT_THAT(message(recording, request), HasSubstr("2 principal components"));
  request.components = 2;
  EXPECT_EQ(message(recording, request), "nothing thrown");
}

TEST(SmallMultiples, ThousandsAreRefused) {
  FakeRecording recording(1, 2, 2, 1, 2, 2);
  recording.add_run("none", 0);
  EXPECT_THAT(message(recording, request_for("keyspace", {std::vector<int>(501, 0), {}})),
              HasSubstr("501 layers x 2 heads"));
}

}  // namespace
}  // namespace keyscope::figures
