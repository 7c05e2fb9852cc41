#include "app/figures/nexus.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5_hl.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "app/figures/catalogue.hpp"
#include "app/figures/figure.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "capture/recording/hdf5.hpp"
#include "tests/app/figures/made_figures.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/small_disk.hpp"

namespace keyscope::figures {

namespace {

using recording::hdf5::File;
using recording::hdf5::Group;
using testing::ElementsAre;
using testing::HasSubstr;

void expect_same(const Figure& a, const Figure& b) {
  EXPECT_EQ(figure_to_json(a), figure_to_json(b));
  ASSERT_EQ(a.panels.size(), b.panels.size());
  for (std::size_t p = 0; p < a.panels.size(); ++p) {
    const Panel &x = a.panels[p], &y = b.panels[p];
    EXPECT_EQ(x.explained_variance, y.explained_variance);
    for (std::size_t s = 0; s < x.points.size(); ++s) {
      EXPECT_EQ(x.points[s].x, y.points[s].x) << x.points[s].id;
      EXPECT_EQ(x.points[s].y, y.points[s].y) << x.points[s].id;
      EXPECT_EQ(x.points[s].z, y.points[s].z) << x.points[s].id;
      EXPECT_EQ(x.points[s].token, y.points[s].token) << x.points[s].id;
      EXPECT_EQ(x.points[s].value, y.points[s].value) << x.points[s].id;
    }
    for (std::size_t s = 0; s < x.lines.size(); ++s) EXPECT_EQ(x.lines[s].y, y.lines[s].y) << x.lines[s].id;
    for (std::size_t s = 0; s < x.bands.size(); ++s) {
      EXPECT_EQ(x.bands[s].low, y.bands[s].low) << x.bands[s].id;
      EXPECT_EQ(x.bands[s].high, y.bands[s].high) << x.bands[s].id;
    }
    ASSERT_EQ(x.order.has_value(), y.order.has_value());
    if (x.order) {
      EXPECT_EQ(x.order->token, y.order->token);
      EXPECT_EQ(x.order->text, y.order->text);
      EXPECT_EQ(x.order->retained, y.order->retained);
      EXPECT_EQ(x.order->merges, y.order->merges);
    }
    ASSERT_EQ(x.heatmap.has_value(), y.heatmap.has_value());
    if (!x.heatmap) continue;
    ASSERT_EQ(x.heatmap->values.rows(), y.heatmap->values.rows());
    for (Eigen::Index i = 0; i < x.heatmap->values.size(); ++i) {
      const float v = x.heatmap->values.data()[i], w = y.heatmap->values.data()[i];
      EXPECT_TRUE(v == w || (std::isnan(v) && std::isnan(w)));
    }
  }
}

TEST(Nexus, FiguresWithoutAPromptComeBack) {
  const FakeRecording recording = make_recording();
  recording::Origin origin = origin_of(recording);
  origin.prompt = {};  // a benchmark on random keys
  const test::ScratchFolder folder;
  const std::vector<Figure> figures{make_figures(recording)[2]};
  write_nexus(folder.file("f.h5"), figures, origin);
  const FigureFile found = read_figures(folder.file("f.h5"));
  EXPECT_TRUE(found.origin.prompt.id.empty());
  ASSERT_EQ(found.figures.size(), 1U);
  expect_same(found.figures.front(), figures.front());
}

TEST(Nexus, FiguresComeBackAsTheyWere) {
  const test::ScratchFolder folder;
  const FakeRecording recording = make_recording();
  std::vector<Figure> figures = make_figures(recording);
  std::ranges::reverse(figures);  // groups lie in alphabetical order, figures come back as they were written
  write_nexus(folder.file("f.h5"), figures, origin_of(recording));
  EXPECT_TRUE(is_figure_file(folder.file("f.h5")));
  const FigureFile file = read_figures(folder.file("f.h5"));
  ASSERT_EQ(file.figures.size(), figures.size());
  for (std::size_t i = 0; i < figures.size(); ++i) expect_same(figures[i], file.figures[i]);
  EXPECT_EQ(file.origin.provenance.command, "keyscope capture");
  EXPECT_EQ(file.origin.model.head_dim, 8);
  EXPECT_EQ(file.origin.prompt.id, recording.info()->prompt.id);
  EXPECT_EQ(file.origin.prompt.token(27), "b");
}

TEST(Nexus, TheDefaultIsTheFilesOwn) {
  const test::ScratchFolder folder;
  const FakeRecording recording = make_recording();
  const std::vector<Figure> figures = make_figures(recording);
  write_nexus(folder.file("f.h5"), {figures[2], figures[0]}, origin_of(recording));
  EXPECT_EQ(read_figures(folder.file("f.h5")).default_figure, 0U);
  EXPECT_EQ(read_figures(folder.file("f.h5")).figures[0].name, "keyspace");
  // Another program has chosen another one.
  const hid_t file = H5Fopen(folder.file("f.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const std::string name = "attention_sink_layer_01_query_head_0";
  ASSERT_GE(H5LTset_attribute_string(file, "/entry", "default", name.c_str()), 0);
  H5Fclose(file);
  EXPECT_EQ(read_figures(folder.file("f.h5")).default_figure, 1U);
}

TEST(Nexus, FiguresWithoutAWrittenOrderComeAlphabetically) {
  const test::ScratchFolder folder;
  const FakeRecording recording = make_recording();
  const std::vector<Figure> figures = make_figures(recording);
  write_nexus(folder.file("f.h5"), {figures[2], figures[0]}, origin_of(recording));
  const hid_t file = H5Fopen(folder.file("f.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  for (const auto& [group, figure] : {std::pair{"/entry/keyspace_keydiff_layer_01_kv_head_0", &figures[2]},
                                      std::pair{"/entry/attention_sink_layer_01_query_head_0", &figures[0]}})
    ASSERT_GE(
        H5LTset_attribute_string(file, group, "keyscope_figure", json_text(figure_to_json(*figure)).c_str()),
        0);
  H5Fclose(file);
  EXPECT_EQ(read_figures(folder.file("f.h5")).figures[0].name, "attention");
}

TEST(Nexus, ADefaultPlotIsFoundFromTheRoot) {
  const test::ScratchFolder folder;
  const FakeRecording recording = make_recording();
  write_nexus(folder.file("f.h5"), {make_figures(recording)[3]}, origin_of(recording));
  const File file = File::open(folder.file("f.h5"));
  const Group root = file.root();
  EXPECT_EQ(root.text("NX_class"), "NXroot");
  const Group entry = root.open_group(root.text("default"));
  EXPECT_EQ(entry.text("NX_class"), "NXentry");
  const Group figure = entry.open_group(entry.text("default"));
  EXPECT_EQ(figure.text("NX_class"), "NXcollection");
  EXPECT_EQ(figure.open_group(figure.text("default")).text("NX_class"), "NXdata");
}

// Calls `see` with every dataset of numbers below a group of plots.
template <typename See>
void each_number(const Group& group, bool plots, const See& see) {
  for (const std::string& name : group.names()) {
    if (group.has_group(name)) {
      const Group below = group.open_group(name);
      each_number(below, below.text("NX_class") == "NXdata", see);
    } else if (plots && group.open_dataset(name).type() != recording::hdf5::ElementType::kOther) {
      see(group.open_dataset(name));
    }
  }
}

TEST(Nexus, EveryListOfNumbersSaysWhatItIsAndInWhichUnits) {
  const test::ScratchFolder folder;
  const FakeRecording recording = make_recording();
  write_nexus(folder.file("f.h5"), make_figures(recording), origin_of(recording));
  const File file = File::open(folder.file("f.h5"));
  int n = 0;
  each_number(file.root().open_group("entry"), false, [&](const recording::hdf5::Dataset& dataset) {
    EXPECT_NE(dataset.text("long_name"), "") << dataset.where();
    EXPECT_NO_THROW(dataset.text("units")) << dataset.where();
    ++n;
  });
  EXPECT_GT(n, 20);
}

TEST(Nexus, AScatterIsASignalWithTwoAxesOfItsLength) {
  const test::ScratchFolder folder;
  const FakeRecording recording = make_recording();
  write_nexus(folder.file("f.h5"), {make_figures(recording)[2]}, origin_of(recording));
  const File file = File::open(folder.file("f.h5"));
  const Group group = file.root().open_group("entry").open_group("keyspace_keydiff_layer_01_kv_head_0");
  EXPECT_EQ(group.text("NX_class"), "NXdata");
  EXPECT_EQ(group.text("signal"), "retained");
  EXPECT_THAT(group.texts("axes"), ElementsAre("x", "y"));
  EXPECT_EQ(group.integer("x_indices"), 0);
  EXPECT_EQ(group.integer("y_indices"), 0);
  const auto mask = group.open_dataset("retained");
  EXPECT_EQ(mask.type(), recording::hdf5::ElementType::kUInt8);
  const auto values = mask.read<std::uint8_t>();
  ASSERT_EQ(values.size(), 90U);
  EXPECT_EQ(std::count(values.begin(), values.end(), 1), 24);
  const auto token = group.open_dataset("token").read<std::int32_t>();
  for (std::int32_t i = 0; i < 90; ++i) {
    EXPECT_EQ(token[i], i) << "in time order";
    EXPECT_EQ(values[i] == 1, recording::HeadTrace(recording.trace(1, 1, 0)).evicted_at[i] < 0);
  }
  EXPECT_THAT(group.open_dataset("x").text("long_name"), HasSubstr("PC 1"));
  EXPECT_EQ(group.open_dataset("anchor_x").shape(), recording::hdf5::Shape{1});
  EXPECT_EQ(H5DSis_scale(group.open_dataset("x").id()), 1);
  EXPECT_EQ(H5DSis_attached(mask.id(), group.open_dataset("y").id(), 0), 1);
}

TEST(Nexus, AHeatmapHasCentresAndEdges) {
  const test::ScratchFolder folder;
  FakeRecording recording(1, 1, 1, 4, 5, 5);
  recording.add_run("none", 0);
  recording.fill(1);
  FigureRequest request;
  request.name = "cosine-matrix";
  Figure figure = build_figure(recording, request);
  figure.panels[0].heatmap->x_step = figure.panels[0].heatmap->y_step = 2;  // five tokens in three cells
  figure.panels[0].heatmap->values = RowMatrixF::Random(3, 3);
  write_nexus(folder.file("f.h5"), {figure}, origin_of(recording));
  const File file = File::open(folder.file("f.h5"));
  const Group group = file.root().open_group("entry").open_group("cosine_matrix_none_layer_00_kv_head_0");
  EXPECT_EQ(group.text("signal"), "cosine");
  EXPECT_THAT(group.texts("axes"), ElementsAre("y", "x"));
  EXPECT_EQ(group.integer("x_indices"), 1);
  EXPECT_EQ(group.open_dataset("cosine").text("interpretation"), "image");
  EXPECT_THAT(group.open_dataset("x").read<double>(), ElementsAre(1, 3, 4.5));
  EXPECT_THAT(group.open_dataset("x_edges").read<double>(), ElementsAre(0, 2, 4, 5));
}

TEST(Nexus, AnOrderIsATreeOfSciPysOrIsRefused) {
  const test::ScratchFolder folder;
  FakeRecording recording(1, 1, 1, 4, 5, 5);
  recording.add_run("none", 0);
  recording.fill(1);
  FigureRequest request;
  request.name = "cosine-matrix";
  request.order = MatrixOrder::kDendrogram;
  Figure figure = build_figure(recording, request);
  const std::string path = folder.file("f.h5").string();
  write_nexus(path, {figure}, origin_of(recording));
  {
    const File file = File::open(path);
    const Group group = file.root().open_group("entry").open_group("cosine_matrix_none_layer_00_kv_head_0");
    EXPECT_EQ(group.open_dataset("linkage").shape(), (recording::hdf5::Shape{4, 4}));
    const auto rows = group.open_dataset("linkage").read<double>();
    EXPECT_EQ(rows.back(), 5) << "the last cluster holds every row";
    EXPECT_EQ(group.open_dataset("token").read<std::int32_t>(), figure.panels[0].order->token);
  }
  for (const auto& [first, second] : {std::pair{7, 8}, std::pair{0, 0}, std::pair{-1, 2}}) {
    Figure broken = figure;
    broken.panels[0].order->merges[1].first = first;
    broken.panels[0].order->merges[1].second = second;
    write_nexus(path, {broken}, origin_of(recording), true);
    EXPECT_THROW(read_figures(path), FileError) << first << ", " << second;
  }
  figure.panels[0].order->token.pop_back();
  write_nexus(path, {figure}, origin_of(recording), true);
  EXPECT_THROW(read_figures(path), FileError) << "four tokens of five rows";
}

TEST(Nexus, AnEmptyFigureAndOneWithoutPanelsAreStillFiles) {
  const test::ScratchFolder folder;
  const FakeRecording recording = make_recording();
  Figure none;
  none.name = "nothing";
  Figure empty;
  empty.name = "empty";
  empty.panels.resize(1);
  write_nexus(folder.file("f.h5"), {none, empty}, origin_of(recording));
  EXPECT_EQ(read_figures(folder.file("f.h5")).figures.size(), 2U);
}

}  // namespace

// Figure files that cannot be written, or not be read.

namespace {

TEST(Nexus, AnUnfinishedFileLeavesNothing) {
  const test::ScratchFolder folder;
  const FakeRecording recording = make_recording();
  {
    NexusWriter writer(folder.file("f.h5"), origin_of(recording), false);
    writer.add(make_figures(recording)[0]);
    EXPECT_FALSE(std::filesystem::exists(folder.file("f.h5")));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Nexus, AFullDiskIsAnErrorAndLeavesNothing) {
  const test::ScratchFolder folder;
  const FakeRecording recording = make_recording();
  const std::vector<Figure> figures = make_figures(recording);
  for (const rlim_t bytes : {512, 20'000, 60'000}) {
    const SmallDisk disk(bytes);
    EXPECT_THROW(write_nexus(folder.file("f.h5"), figures, origin_of(recording)), FileError) << bytes;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  write_nexus(folder.file("f.h5"), figures, origin_of(recording));
  EXPECT_EQ(read_figures(folder.file("f.h5")).figures.size(), figures.size());
}

TEST(Nexus, AnExistingFileIsKeptUnlessReplaced) {
  const test::ScratchFolder folder;
  const FakeRecording recording = make_recording();
  std::ofstream(folder.file("f.h5")) << "mine";
  EXPECT_THROW(write_nexus(folder.file("f.h5"), {}, origin_of(recording)), FileError);
  EXPECT_EQ(std::filesystem::file_size(folder.file("f.h5")), 4U);
  write_nexus(folder.file("f.h5"), {}, origin_of(recording), true);
  EXPECT_TRUE(is_figure_file(folder.file("f.h5")));
}

TEST(Nexus, DamagedAndForeignFilesAreSaid) {
  const test::ScratchFolder folder;
  const FakeRecording recording = make_recording();
  EXPECT_THROW(read_figures(folder.file("none.h5")), FileError);
  std::ofstream(folder.file("text.h5")) << "no HDF5";
  EXPECT_THROW(read_figures(folder.file("text.h5")), FileError);
  EXPECT_FALSE(is_figure_file(folder.file("text.h5")));
  File::create(folder.file("bare.h5")).close();
  EXPECT_THROW(read_figures(folder.file("bare.h5")), FileError);
  write_nexus(folder.file("f.h5"), make_figures(recording), origin_of(recording));
  const auto size = std::filesystem::file_size(folder.file("f.h5"));
  for (int part = 0; part < 20; ++part) {
    std::filesystem::copy_file(folder.file("f.h5"), folder.file("cut.h5"),
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(folder.file("cut.h5"), size * part / 20);
    EXPECT_THROW(read_figures(folder.file("cut.h5")), FileError) << part;
  }
}

TEST(FigureJson, WhatIsDamagedIsRefused) {
  const nlohmann::json good = figure_to_json(make_figures(make_recording())[0]);
  const auto refusal = [](const nlohmann::json& json) -> std::string {
    try {
      figure_from_json({json, "f.h5", ""});
      return "";
    } catch (const FileError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refusal(good), "");
  for (const char* pointer : {"/name", "/panels/0/heatmap/x", "/panels/0/x/label"}) {
    nlohmann::json broken = good;
    broken[nlohmann::json::json_pointer(pointer)] = nlohmann::json::array({"?"});
    EXPECT_THAT(refusal(broken), ::testing::MatchesRegex("f.h5: .*expected .*")) << pointer;
  }
  nlohmann::json broken = good;
  for (const nlohmann::json& layer :
       {nlohmann::json("?"), nlohmann::json(1e300), nlohmann::json(1LL << 40)}) {
    broken["view"]["layer"] = layer;
    EXPECT_THAT(refusal(broken), HasSubstr("view.layer: found ")) << layer;
  }
  broken = good;
  broken["panels"][0]["heatmap"]["colour_map"] = "jet";
  EXPECT_THAT(refusal(broken),
              HasSubstr("panels[0].heatmap.colour_map: found \"jet\", expected one of viridis, diverging"));
  broken = good;
  broken["panels"][0]["heatmap"]["y"] = {0, 0, 4};
  EXPECT_THAT(refusal(broken), HasSubstr("heatmap.y: found cells of width 0"));
  broken["panels"][0]["heatmap"]["y"] = {0, 1};
  EXPECT_THAT(refusal(broken), HasSubstr("heatmap.y: found an array of 2, expected three numbers"));
  broken = good;
  broken["multiples"] = {
      {"row_label", "layer"}, {"column_label", "head"}, {"rows", {"0", "1"}}, {"columns", {"0"}}};
  EXPECT_THAT(refusal(broken), HasSubstr("one for each of 1 panels"));
}

}  // namespace

}  // namespace keyscope::figures
