// A recording and its compressed copy are the same, however much was copied before the recording was closed.

#include "capture/recording/packing.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "capture/recording/recording.hpp"
#include "tests/support/recording_comparison.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/synthetic_capture.hpp"

namespace keyscope::recording {
namespace {

namespace fs = std::filesystem;

class PackingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto writer = make_recording_writer(plain_, false);
    capture_.send(*writer);
    writer->end(true);
    fs::copy_file(plain_, path_);
  }

  static SyntheticOptions options() {
    SyntheticOptions options;
    options.n_prompt = 300;  // attention: four chunks a head
    options.block_size = 100;
    options.budget = 120;
    return options;
  }

  // Run by run, as a capture adds them.
  void add_all(Packing& packing) const {
    const auto info = open_recording(path_.string())->info();
    for (const RunInfo& run : info->runs)
      for (const int layer : capture_.plan()->layers) packing.add_layer(run.plan.name, layer, run.n_tokens);
  }

  // Steps from a recording that is then closed.
  int step(Packing& packing, int most) const {
    const hdf5::File recording = hdf5::File::open(path_);
    int n = 0;
    while (n < most && packing.step(recording.root())) ++n;
    return n;
  }

  bool is_compressed(const char* name) const {
    const hdf5::File file = hdf5::File::open(path_);
    return file.root()
        .open_group("entry")
        .open_group("runs")
        .open_group("none")
        .open_group("layer_00")
        .open_dataset(name)
        .compressed();
  }

  test::ScratchFolder folder_;
  fs::path plain_ = folder_.path() / "plain.h5", path_ = folder_.path() / "packed.h5";
  fs::path copy_ = own_part(path_.string() + ".packing");
  SyntheticCapture capture_{options()};
};

TEST_F(PackingTest, FinishesWhatWasBegunAtAnyChunk) {
  const auto expected = open_recording(plain_.string());
  for (const int n_steps : {0, 1, 2, 5, 9, 30}) {
    SCOPED_TRACE(n_steps);
    fs::copy_file(plain_, path_, fs::copy_options::overwrite_existing);
    Packing packing(path_);
    add_all(packing);
    EXPECT_EQ(step(packing, n_steps), n_steps);
    packing.finish();
    EXPECT_FALSE(fs::exists(copy_));
    expect_same(*expected, *open_recording(path_.string()));
    EXPECT_TRUE(is_compressed("keys"));
    EXPECT_TRUE(is_compressed("evicted_at"));
  }
}

TEST_F(PackingTest, KeepsOtherWritersFromTheCopyAsLongAsItsLockLives) {
  const auto is_locked = [&] { return try_lock(Descriptor(path_, O_RDWR).id()) == FileLock::kBusy; };
  Packing packing(path_);
  EXPECT_FALSE(is_locked());
  auto lock = packing.finish();
  EXPECT_TRUE(is_locked());
  lock.reset();
  EXPECT_FALSE(is_locked());
}

TEST_F(PackingTest, ComesToAnEnd) {
  Packing packing(path_);
  EXPECT_EQ(step(packing, 1), 0) << "nothing was added";
  add_all(packing);
  constexpr int kMany = 1 << 20;
  const int n = step(packing, kMany);
  EXPECT_LT(n, kMany);
  EXPECT_GE(n, 2 * 2 * 3) << "two runs, two layers, and keys, queries, values at least";
  EXPECT_EQ(step(packing, 1), 0);
}

TEST_F(PackingTest, LeavesNothingBehindUnfinished) {
  {
    Packing packing(path_);
    add_all(packing);
    step(packing, 3);
    EXPECT_TRUE(fs::exists(copy_));
  }
  EXPECT_FALSE(fs::exists(copy_));
  expect_same(*open_recording(plain_.string()), *open_recording(path_.string()));
}

TEST_F(PackingTest, NoticesARecordingThatWasNotFinal) {
  Packing packing(path_);
  for (const int layer : capture_.plan()->layers) packing.add_layer("none", layer, 200);
  step(packing, 1 << 20);
  EXPECT_THROW(packing.finish(), FileError) << "200 of its tokens were copied";
  EXPECT_FALSE(fs::exists(copy_));
  expect_same(*open_recording(plain_.string()), *open_recording(path_.string()));
}

}  // namespace
}  // namespace keyscope::recording
