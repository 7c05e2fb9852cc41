#include "capture/recording/joint_recording.hpp"

#include <filesystem>
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
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A capture of two runs, and each run in a recording of its own.
class JointRecording : public ::testing::TestWithParam<SyntheticOptions> {
 protected:
  JointRecording() {
    write(GetParam(), whole_);
    for (const char* other : {"keydiff", "none"}) {
      const fs::path part = folder_.file("results/0" + std::to_string(parts_.size())) /
                            ("0" + std::to_string(parts_.size()) + std::string(30, 'a') + ".h5");
      fs::create_directories(part.parent_path());
      fs::copy_file(whole_, part);
      const hid_t file = H5Fopen(part.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
      H5Ldelete(file, (std::string("/entry/runs/") + other).c_str(), H5P_DEFAULT);
      H5Fclose(file);
      parts_.push_back({part, parts_.empty() ? "none" : "keydiff"});
    }
  }

  static void write(const SyntheticOptions& options, const fs::path& path) {
    SyntheticCapture capture(options);
    const auto writer = make_recording_writer(path, false);
    capture.send(*writer);
    writer->end(true);
  }
  fs::path join(const std::string& name, JointStorage storage) const {
    const fs::path path = folder_.file(name);
    hdf5::File file = hdf5::File::create(path);
    {
      hdf5::Group root = file.root();
      root.set_text("NX_class", "NXroot");
      root.set_integer("keyscope_format", 1);
      for (const char* entry : {"entry", "entry_2"})
        write_joint_recording(root, path.parent_path(), entry, parts_, storage);
    }
    file.close();
    return path;
  }
  std::string refusal() const {
    try {
      join("refused.h5", JointStorage::kVirtual);
    } catch (const FileError& error) {
      return error.what();
    }
    return "";
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
  parts_[0].file = whole_;
  EXPECT_THAT(refusal(), HasSubstr("whole.h5: it has 2 runs; expected one"));
  parts_.push_back({folder_.file("other.h5"), "none-2"});
  parts_.erase(parts_.begin());
  EXPECT_THAT(refusal(), HasSubstr("other.h5: it has 2 runs"));
}

INSTANTIATE_TEST_SUITE_P(Captures, JointRecording,
                         ::testing::Values(SyntheticOptions{}, sinks_and_experts()),
                         [](const auto& param) { return param.index == 0 ? "plain" : "sinks_and_experts"; });

}  // namespace
}  // namespace keyscope::recording
