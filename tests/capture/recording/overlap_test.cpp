// The engine and the disk work at the same time, and are never more than one block apart. This program
// replaces the C library's fdatasync by that of a disk which a test may stop.

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "base/files.hpp"
#include "capture/recording/recording.hpp"
#include "tests/support/recording_comparison.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/synthetic_capture.hpp"

namespace {

class Disk {
 public:
  void stop() { set(true); }
  void go_on() { set(false); }
  void sync() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !stopped_; });
  }

 private:
  void set(bool stopped) {
    const std::lock_guard lock(mutex_);
    stopped_ = stopped;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
};
Disk disk;

}  // namespace

extern "C" int fdatasync(int) {
  disk.sync();
  return 0;
}

namespace keyscope::recording {
namespace {

using namespace std::chrono_literals;

class Overlap : public ::testing::Test {
 protected:
  void SetUp() override { writer_->begin(capture_.plan()); }
  void TearDown() override { disk.go_on(); }  // whatever a test found, the writer's thread must end

  std::future<void> hand_in(int block) {
    return std::async(std::launch::async, [this, block] { writer_->block(capture_.block(0, block)); });
  }

  test::ScratchFolder folder_;
  std::filesystem::path out_ = folder_.path() / "a.h5";
  SyntheticCapture capture_;
  std::unique_ptr<RecordSink> writer_ = make_recording_writer(out_, false);
};

TEST_F(Overlap, TheEngineGoesOnWhileABlockIsWritten) {
  disk.stop();
  auto first = hand_in(0);
  EXPECT_EQ(first.wait_for(30s), std::future_status::ready) << "block 1 could not be computed meanwhile";
  disk.go_on();
  first.get();
}

TEST_F(Overlap, TheEngineIsNeverTwoBlocksAhead) {
  disk.stop();
  hand_in(0).get();
  auto second = hand_in(1);
  EXPECT_EQ(second.wait_for(200ms), std::future_status::timeout) << "block 0 is not on the disk";
  disk.go_on();
  second.get();
  EXPECT_GE(open_recording(out_.string() + ".part")->info()->runs[0].blocks_done, 1);
}

// Of two runs, the first is compressed before anything comes of the second.
TEST(OverlapOfCompression, WhatIsFinalIsCompressedWhileTheEngineComputes) {
  const test::ScratchFolder folder;
  const std::filesystem::path out = folder.path() / "a.h5", copy = own_part(out.string() + ".part.packing");
  SyntheticOptions options;
  options.compress = true;
  options.max_generated = options.n_generated = 0;
  const SyntheticCapture capture(options);
  const auto writer = make_recording_writer(out, false);
  writer->begin(capture.plan());
  const auto send = [&](int run) {
    for (int block = 0; block < capture.n_blocks(run); ++block) writer->block(capture.block(run, block));
    writer->prompt_done(capture.prompt_result(run));
    writer->run_done(run, capture.generated(run));
  };
  EXPECT_FALSE(std::filesystem::exists(copy));
  send(0);
  for (int i = 0; i < 3000 && !std::filesystem::exists(copy); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(std::filesystem::exists(copy)) << "the writer waited idly";
  send(1);
  writer->end(true);
  EXPECT_FALSE(std::filesystem::exists(copy));
  auto memory = MemoryRecording::create();
  capture.send(*memory);
  memory->end(true);
  expect_same(*memory, *open_recording(out.string()));
}

}  // namespace
}  // namespace keyscope::recording
