#include "capture/recording/hdf5.hpp"

#include <gtest/gtest.h>

#include "analysis/errors.hpp"
#include "tests/scratch_folder.hpp"

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

}  // namespace
}  // namespace keyscope::recording::hdf5
