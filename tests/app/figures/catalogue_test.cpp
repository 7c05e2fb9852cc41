#include "app/figures/catalogue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <oneapi/tbb/parallel_for.h>

#include "base/errors.hpp"
#include "tests/support/fake_recording.hpp"

namespace keyscope::figures {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

FakeRecording two_layers() {
  FakeRecording recording(2, 4, 2, 4, 32, 8);
  recording.add_run("keydiff", 8);
  recording.add_run("none", 0);
  recording.fill(1);
  return recording;
}

template <typename Action>
std::string usage_message(Action action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(Registry, EveryNameBuildsAFigureOfThatName) {
  FakeRecording recording = two_layers();
  recording.edit_info().values = true;
  for (const std::string_view name : figure_names()) {
    FigureRequest request;
    request.name = name;
    const Figure figure = build_figure(recording, request);
    EXPECT_EQ(figure.name, name);
    EXPECT_FALSE(figure.panels.empty());
    EXPECT_NO_THROW(check_request(*recording.info(), request));
  }
}

// In any order, and several at a time.
TEST(Registry, FiguresThatShareTheirMeasuresAreThoseMadeAlone) {
  FakeRecording recording = two_layers();
  recording.edit_info().values = true;
  const measures::MeasuredHeads heads(recording);
  const auto& names = figure_names();
  std::vector<std::string> shared(names.size());
  oneapi::tbb::parallel_for(std::size_t{0}, names.size(), [&](std::size_t i) {
    FigureRequest request;
    request.name = names[i];
    shared[i] = figure_to_json(build_figure(heads, request)).dump();
  });
  for (std::size_t i = 0; i < names.size(); ++i) {
    FigureRequest request;
    request.name = names[i];
    EXPECT_EQ(shared[i], figure_to_json(build_figure(recording, request)).dump()) << names[i];
  }
}

TEST(Registry, AnUnknownNameSaysWhichThereAre) {
  FigureRequest request;
  request.name = "histogram";
  const std::string message = usage_message([&] { build_figure(two_layers(), request); });
  EXPECT_THAT(message, HasSubstr("keyspace, cosine-matrix, attention"));
}

TEST(Registry, ThePapersNamesAreKnown) {
  for (const FigureAlias& alias : figure_aliases()) {
    EXPECT_THAT(figure_names(), testing::Contains(alias.name));
    EXPECT_EQ(figure_name(alias.paper), alias.name);
  }
  FigureRequest request;
  request.name = "fig14";
  EXPECT_EQ(build_figure(two_layers(), request).name, "mean-key-query-cosine");
  EXPECT_THAT(usage_message([] { figure_name("fig7"); }), HasSubstr("keyscope bench prefill"));
  EXPECT_THAT(usage_message([] { figure_name("fig19"); }), HasSubstr("keyscope eval niah"));
  EXPECT_THAT(usage_message([] { figure_name("table12"); }), HasSubstr("keyscope eval longbench"));
}

TEST(Registry, WhatIsLeftOpenIsFilledIn) {
  FigureRequest request;
  request.name = "keyspace";
  EXPECT_THAT(build_figure(two_layers(), request).view.runs, ElementsAre("keydiff", "none"));
  request.name = "attention";
  request.kv_head = 1;
  const FigureView view = build_figure(two_layers(), request).view;
  EXPECT_THAT(view.runs, ElementsAre("none"));
  EXPECT_EQ(view.query_head, 2) << "the first of KV head 1's group";
  EXPECT_EQ(view.block, 3) << "the end of the prompt";
}

TEST(Registry, ARunGivenTwiceIsShownOnce) {
  FigureRequest request;
  request.name = "keyspace";
  request.runs = {"none", "keydiff", "none"};
  const Figure figure = build_figure(two_layers(), request);
  EXPECT_THAT(figure.view.runs, ElementsAre("none", "keydiff"));
  EXPECT_EQ(figure.panels.size(), 2U);
  request.name = "attention";
  request.runs = {"none", "none"};
  EXPECT_THAT(build_figure(two_layers(), request).view.runs, ElementsAre("none"));
}

TEST(Registry, AQueryHeadMeansItsKvHead) {
  FigureRequest request;
  request.name = "keyspace";
  request.query_head = 3;
  EXPECT_EQ(build_figure(two_layers(), request).view.kv_head, 1);
  request.kv_head = 0;
  EXPECT_THAT(usage_message([&] { build_figure(two_layers(), request); }), HasSubstr("reads KV head 1"));
}

TEST(Registry, StartsAtTheFirstRecordedHeadAndRefusesOthers) {
  FakeRecording recording = two_layers();
  recording.edit_info().heads.kv_heads = {1};
  for (const std::string_view name : figure_names()) {
    if (scope_of(name) == FigureScope::kRecording) continue;
    FigureRequest request;
    request.name = name;
    EXPECT_EQ(build_figure(recording, request).view.kv_head, 1) << name;
    request.kv_head = 0;
    EXPECT_THAT(usage_message([&] { build_figure(recording, request); }),
                HasSubstr("KV head 0 was not recorded; recorded are 1"))
        << name;
    EXPECT_THAT(usage_message([&] { check_request(*recording.info(), request); }),
                HasSubstr("recorded are 1"));
  }
}

TEST(Registry, ChecksComeBeforeTheWork) {
  const FakeRecording recording = two_layers();
  const auto message = [&](FigureRequest request) {
    request.name = request.name.empty() ? "attention" : request.name;
    return usage_message([&] { check_request(*recording.info(), request); });
  };
  FigureRequest request;
  request.runs = {"h2o"};
  EXPECT_THAT(message(request), HasSubstr("keydiff, none"));
  request.runs = {"none", "keydiff"};
  EXPECT_THAT(message(request), HasSubstr("shows one run"));
  request.runs = {"none"};
  request.layer = 5;
  EXPECT_THAT(message(request), HasSubstr("0, 1"));
  request.layer = 1;
  request.query_head = 4;
  EXPECT_THAT(message(request), HasSubstr("0 to 3"));
  request.query_head = 0;
  request.block = 4;
  EXPECT_THAT(message(request), HasSubstr("blocks 0 to 3"));
  request.block = 3;
  EXPECT_EQ(message(request), "nothing thrown");
}

TEST(Registry, KnowsWhatWasRecorded) {
  FakeRecording recording = two_layers();
  recording.edit_info().queries = false;
  EXPECT_TRUE(is_recorded(*recording.info(), "keyspace"));
  EXPECT_FALSE(is_recorded(*recording.info(), "attention"));
  recording.edit_info().attention = true;
  EXPECT_TRUE(is_recorded(*recording.info(), "attention"));
}

}  // namespace
}  // namespace keyscope::figures
