#include "capture/recording/joint_recording.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include "base/errors.hpp"
#include "capture/recording/hdf5.hpp"
#include "capture/recording/recording.hpp"
#include "tests/support/recording_comparison.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/synthetic_capture.hpp"

namespace keyscope::recording {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A capture of two runs, and each run in a recording of its own.
class JointRecording : public ::testing::TestWithParam<SyntheticOptions> {
 protected:
  JointRecording() {
    write(GetParam(), whole_);
    add_part(whole_, "none");
    add_part(whole_, "keydiff");
    forget_times(whole_);
  }

  // What a joint recording leaves out.
  static void forget_times(const fs::path& recording) {
    const hid_t file = H5Fopen(recording.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    ASSERT_GE(H5Adelete_by_name(file, "/entry/provenance", "started", H5P_DEFAULT), 0);
    for (const char* name : {"/entry/runs/none/block_ms", "/entry/runs/keydiff/block_ms"}) {
      const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(dataset);
      const std::vector<float> unknown(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)), NAN);
      ASSERT_GE(H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, unknown.data()), 0);
      H5Sclose(space), H5Dclose(dataset);
    }
    H5Fclose(file);
  }

  // A recording of one run alone, named as a study's results are.
  void add_part(const fs::path& of, const std::string& run) {
    const std::string number = "0" + std::to_string(parts_.size());
    const fs::path part = folder_.file("results/" + number) / (number + std::string(30, 'a') + ".h5");
    fs::create_directories(part.parent_path());
    fs::copy_file(of, part);
    const hid_t file = H5Fopen(part.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    H5Ldelete(file, run == "none" ? "/entry/runs/keydiff" : "/entry/runs/none", H5P_DEFAULT);
    H5Fclose(file);
    parts_.push_back({part, run});
  }

  static void write(const SyntheticOptions& options, const fs::path& path) {
    SyntheticCapture capture(options);
    const auto writer = make_recording_writer(path, false);
    capture.send(*writer);
    writer->end(true);
  }
  fs::path join(const std::string& name, JointStorage storage,
                const std::function<void(std::int64_t)>& progress = {}) const {
    const fs::path path = folder_.file(name);
    hdf5::File file = hdf5::File::create(path);
    {
      hdf5::Group root = file.root();
      root.set_text("NX_class", "NXroot");
      root.set_integer("keyscope_format", 1);
      for (const char* entry : {"entry", "entry_2"})
        write_joint_recording(root, path.parent_path(), entry, parts_, storage, progress);
    }
    file.close();
    return path;
  }
  std::string refusal() const {
    try {
      join("refused.h5", JointStorage::kVirtual);
      return "";
    } catch (const FileError& error) {
      fs::remove(folder_.file("refused.h5"));
      return error.what();
    }
  }

  test::ScratchFolder folder_;
  fs::path whole_ = folder_.file("whole.h5");
  std::vector<JointRun> parts_;
};

TEST_P(JointRecording, IsTheRecordingOfAllItsRuns) {
  const auto expected = open_recording(whole_.string());
  for (const JointStorage storage : {JointStorage::kVirtual, JointStorage::kCopied}) {
    const fs::path path = join(storage == JointStorage::kVirtual ? "virtual.h5" : "copied.h5", storage);
    EXPECT_THAT(recording_entries(path.string()), ElementsAre("entry", "entry_2"));
    for (const char* entry : {"", "::entry", "::entry_2"})
      expect_same(*expected, *open_recording(path.string() + entry));
    EXPECT_THROW(open_recording(path.string() + "::entry_3"), FileError);
  }
}

TEST_P(JointRecording, MovesWithItsParts) {
  const fs::path path = join("virtual.h5", JointStorage::kVirtual), there = folder_.file("there");
  fs::create_directory(there);
  fs::rename(path, there / "virtual.h5");
  EXPECT_THROW(open_recording((there / "virtual.h5").string()), FileError);
  fs::rename(folder_.file("results"), there / "results");
  expect_same(*open_recording(whole_.string()), *open_recording((there / "virtual.h5").string()));
}

TEST_P(JointRecording, WhatDoesNotGoTogetherIsRefused) {
  SyntheticOptions other = GetParam();
  --other.n_prompt;
  write(other, folder_.file("other.h5"));
  add_part(folder_.file("other.h5"), "none");
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("02/02a"), HasSubstr("it is of another prompt"), HasSubstr("00/00a")));
  parts_.back().file = whole_;
  EXPECT_THAT(refusal(), HasSubstr("whole.h5: it has 2 runs; expected one"));
  parts_.back().file = folder_.file("absent.h5");
  EXPECT_THAT(refusal(), HasSubstr("absent.h5: no such file"));
}

TEST_P(JointRecording, MayBeEndedBetweenItsChunks) {
  std::vector<std::int64_t> reported;
  join("copied.h5", JointStorage::kCopied, [&](std::int64_t n_runs) { reported.push_back(n_runs); });
  EXPECT_EQ(std::ranges::max(reported), std::ssize(parts_));
  EXPECT_GT(reported.size(), 4 * parts_.size());
  EXPECT_THROW(join("ended.h5", JointStorage::kCopied,
                    [](std::int64_t n_runs) {
                      if (n_runs == 2) throw Cancelled("enough");
                    }),
               Cancelled);
}

// Such a link would be followed until the disk is full.
TEST_P(JointRecording, AGroupThatHoldsItselfIsRefused) {
  const hid_t file = H5Fopen(parts_.front().file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  ASSERT_GE(H5Lcreate_hard(file, "/entry/runs/none", file, "/entry/runs/none/loop", H5P_DEFAULT, H5P_DEFAULT),
            0);
  H5Fclose(file);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("loop/loop"), HasSubstr("groups in groups")));
}

INSTANTIATE_TEST_SUITE_P(Captures, JointRecording, ::testing::Values(SyntheticOptions{}, sinks_and_experts()),
                         [](const auto& param) { return param.index == 0 ? "plain" : "sinks_and_experts"; });

}  // namespace
}  // namespace keyscope::recording
