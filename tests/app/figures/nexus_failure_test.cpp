// Figure files that cannot be written, or not be read.

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "base/errors.hpp"
#include "app/figures/figure_json.hpp"
#include "app/figures/nexus.hpp"
#include "capture/recording/hdf5.hpp"
#include "tests/app/figures/made_figures.hpp"
#include "tests/app/figures/small_disk.hpp"
#include "tests/scratch_folder.hpp"

namespace keyscope::figures {
namespace {

using recording::hdf5::File;

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
  EXPECT_NO_THROW(figure_from_json(good));
  for (const char* pointer : {"/name", "/view/layer", "/panels/0/heatmap/x", "/panels/0/x/label"}) {
    nlohmann::json broken = good;
    broken[nlohmann::json::json_pointer(pointer)] = nlohmann::json::array({"?"});
    EXPECT_THROW(figure_from_json(broken), nlohmann::json::exception) << pointer;
  }
  nlohmann::json broken = good;
  broken["panels"][0]["heatmap"]["colour_map"] = "jet";
  EXPECT_THROW(figure_from_json(broken), InvalidInput);
  broken = good;
  broken["multiples"] = {
      {"row_label", "layer"}, {"column_label", "head"}, {"rows", {"0", "1"}}, {"columns", {"0"}}};
  EXPECT_THROW(figure_from_json(broken), InvalidInput) << "two cells of one panel";
}

}  // namespace
}  // namespace keyscope::figures
