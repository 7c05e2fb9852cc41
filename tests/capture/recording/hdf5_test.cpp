#include "capture/recording/hdf5.hpp"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "capture/recording/hdf5_dataset.hpp"
#include "capture/recording/hdf5_drivers.hpp"
#include "capture/recording/hdf5_node.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::recording::hdf5 {

namespace {

class Hdf5 : public ::testing::Test {
 protected:
  test::ScratchFolder folder_;
  std::filesystem::path path_ = folder_.path() / "a.h5";
};

TEST_F(Hdf5, AttributesComeBack) {
  const std::string config(300000, 'c'), accents = "Ünïcödé ✓";
  File file = File::create(path_);
  Group root = file.root();
  root.set_text("long", config);
  root.set_text("empty", "");
  root.set_texts("axes", {"x", accents});
  root.set_integer("n", -5);
  root.set_integer("n", 7);
  file.close();
  const File again = File::open(path_);
  const Group read = again.root();
  EXPECT_EQ(read.text("long"), config);
  EXPECT_EQ(read.text("empty"), "");
  EXPECT_EQ(read.texts("axes"), (std::vector<std::string>{"x", accents}));
  EXPECT_EQ(read.integer("n"), 7) << "overwritten in place";
  EXPECT_THROW(read.text("axes"), FileError) << "two texts";
  EXPECT_THROW(read.text("n"), FileError);
  EXPECT_THROW(read.integer("empty"), FileError);
  EXPECT_THROW(read.integer("missing"), FileError);
}

TEST_F(Hdf5, SlabsAndPointsGoWhereTheyBelong) {
  File file = File::create(path_);
  DatasetOptions options;
  options.chunk = {2, 2};
  options.shuffle = true;
  options.gzip = 4;
  options.fill = -1;
  options.cache_bytes = 1 << 16;
  Group root = file.root();
  Dataset dataset = root.create_dataset("m", ElementType::kInt32, {3, 4}, options);
  const std::vector<std::int32_t> slab{1, 2, 3, 4}, points{8, 9};
  dataset.write(std::span(slab), {1, 1}, {2, 2});
  dataset.write_points(std::span(points), std::vector<hsize_t>{0, 3, 2, 0});
  EXPECT_THROW(dataset.write(std::span(slab), {2, 3}, {2, 2}), FileError) << "outside";
  EXPECT_THROW(dataset.write(std::span(slab), {0, 0}, {2, 3}), InvalidInput) << "too few values";
  file.close();
  const File again = File::open(path_);
  const Dataset read = again.root().open_dataset("m");
  EXPECT_EQ(read.read<std::int32_t>(), (std::vector<std::int32_t>{-1, -1, -1, 8, -1, 1, 2, -1, 9, 3, 4, -1}));
  std::vector<std::int32_t> part(2);
  read.read(std::span(part), {1, 1}, {2, 1});
  EXPECT_EQ(part, (std::vector<std::int32_t>{1, 3}));
  EXPECT_THROW(read.read(std::span(part), {3, 0}, {2, 1}), FileError) << "outside";
}

TEST_F(Hdf5, HalfPrecisionRoundsToNearest) {
  File file = File::create(path_);
  Group root = file.root();
  const std::vector<float> values{1.0f, 1.0f / 3, 65504.0f, -2.5e-8f, 0.1f};
  root.create_dataset("h", ElementType::kFloat16, {5}).write(std::span(values));
  file.close();
  const File again = File::open(path_);
  const Dataset read = again.root().open_dataset("h");
  EXPECT_EQ(read.type(), ElementType::kFloat16);
  EXPECT_EQ(read.read<float>(),
            (std::vector<float>{1.0f, 0.333251953125f, 65504.0f, -0.0f, 0.0999755859375f}));
  EXPECT_EQ(read.read<double>()[1], 0.333251953125);
}

TEST_F(Hdf5, CreateNeverReplaces) {
  File::create(path_).close();
  EXPECT_THROW(File::create(path_), FileError);
}

TEST_F(Hdf5, OpenSaysWhatIsThere) {
  EXPECT_THROW(File::open(path_), FileError);
  EXPECT_THROW(File::open(folder_.path()), FileError);
  EXPECT_THROW(File::open("/dev/zero"), FileError);
}

TEST_F(Hdf5, NumbersBeyondAllMemoryAreRefused) {
  EXPECT_EQ(n_elements({2, 3, 4}, "x"), 24u);
  EXPECT_EQ(n_elements({}, "x"), 1u);
  EXPECT_EQ(n_elements({hsize_t{1} << 62, 0}, "x"), 0u);
  EXPECT_THROW(n_elements({hsize_t{1} << 40, hsize_t{1} << 40}, "x"), FileError);
}

// A read of several megabytes is done in parts, along the first dimension that has more than one row.
TEST_F(Hdf5, LargeSlabsComeBackWholeWhereverTheyBegin) {
  constexpr hsize_t kRows = 70001, kCols = 9;
  std::vector<float> values(2 * kRows * kCols);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  File file = File::create(path_);
  Group root = file.root();
  DatasetOptions chunked;
  chunked.chunk = {1, 300, 4};
  root.create_dataset("chunked", ElementType::kFloat32, {2, kRows, kCols}, chunked)
      .write(std::span<const float>(values));
  root.create_dataset("contiguous", ElementType::kFloat32, {2, kRows, kCols})
      .write(std::span<const float>(values));
  file.close();
  const File again = File::open(path_);
  for (const char* name : {"chunked", "contiguous"}) {
    const Dataset dataset = again.root().open_dataset(name);
    EXPECT_EQ(dataset.read<float>(), values) << name;
    for (const hsize_t first : {0, 299, 300, 1234}) {
      const hsize_t n_rows = kRows - first - 7;
      std::vector<float> part(n_rows * 5);
      dataset.read(std::span(part), {1, first, 2}, {1, n_rows, 5});
      std::vector<float> expected;
      for (hsize_t row = first; row < first + n_rows; ++row) {
        const auto at = values.begin() + static_cast<std::ptrdiff_t>((kRows + row) * kCols + 2);
        expected.insert(expected.end(), at, at + 5);
      }
      EXPECT_EQ(part, expected) << name << " from row " << first;
    }
  }
}

// A heap of `size` bytes: its header, then what `add` put in.
class Heap {
 public:
  explicit Heap(std::uint64_t size) : size_(size) { put(0x4C4F4347, 4), put(1, 4), put(size, 8); }
  Heap& object(std::uint64_t index, std::uint64_t size, std::size_t stored) {
    put(index, 2), put(1, 2), put(0, 4), put(size, 8);
    bytes_.resize(bytes_.size() + stored);
    return *this;
  }
  bool sound(std::uint64_t room = 1 << 20) const {
    std::vector<std::byte> whole = bytes_;
    whole.resize(std::min<std::uint64_t>(size_, 1 << 16));
    return is_sound_heap(whole, 8, room);
  }

 private:
  void put(std::uint64_t value, int n_bytes) {
    for (int i = 0; i < n_bytes; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i) & 0xFF));
  }
  std::uint64_t size_;
  std::vector<std::byte> bytes_;
};

TEST(GlobalHeap, IsWalkedFromItsFirstObjectToItsEnd) {
  EXPECT_TRUE(Heap(4096).object(1, 5, 8).object(2, 16, 16).object(0, 4096 - 16 - 24 - 32, 0).sound());
  EXPECT_TRUE(Heap(4096).object(1, 4096 - 32, 0).sound()) << "full to the last byte";
  EXPECT_FALSE(Heap(4096).object(1, 5, 8).object(0, 0, 0).sound()) << "free space without size: no end";
  EXPECT_FALSE(Heap(4096).object(0, 8, 0).sound()) << "smaller than its own header";
  EXPECT_FALSE(Heap(4096).object(1, 4096, 0).sound()) << "beyond the end";
  EXPECT_FALSE(Heap(4096).object(1, ~std::uint64_t{0} - 3, 0).sound()) << "wraps around";
  EXPECT_FALSE(Heap(4096).object(1, 5, 8).object(0, 4096 - 40, 0).sound(1000)) << "cut short";
  EXPECT_FALSE(Heap(8).sound());
}

}  // namespace

}  // namespace keyscope::recording::hdf5

namespace keyscope::recording {

namespace {

TEST(FairMutex, HoldsOthersOffUntilItsOwnerHasLeftAsOftenAsItCame) {
  FairMutex mutex;
  std::atomic<bool> entered = false;
  mutex.lock();
  mutex.lock();
  std::thread other([&] {
    const std::lock_guard lock(mutex);
    entered = true;
  });
  mutex.unlock();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(entered);
  mutex.unlock();
  other.join();
  EXPECT_TRUE(entered);
}

TEST(FairMutex, WhoeverWaitsComesBeforeWhoeverLocksAgain) {
  FairMutex mutex;
  std::atomic<bool> waiting = false;
  std::atomic<bool> done = false;
  mutex.lock();
  std::thread other([&] {
    waiting = true;
    const std::lock_guard lock(mutex);
    done = true;
  });
  while (!waiting) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // from there to its place in the queue
  mutex.unlock();
  mutex.lock();
  EXPECT_TRUE(done);
  mutex.unlock();
  other.join();
}

TEST(FairMutex, LetsOneInAtATime) {
  constexpr int kThreads = 4, kTimes = 2000;
  FairMutex mutex;
  int count = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&] {
        for (int time = 0; time < kTimes; ++time) {
          const std::lock_guard outer(mutex);
          const std::lock_guard inner(mutex);
          ++count;
        }
      });
  }
  EXPECT_EQ(count, kThreads * kTimes);
}

}  // namespace

}  // namespace keyscope::recording
