// Rows rounded to bfloat16: what other tools see, and that the file is held to what it says.

#include "capture/recording/row_store.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "capture/recording/memory_recording.hpp"
#include "capture/recording/writer.hpp"
#include "tests/capture/recording/hostile_file.hpp"
#include "tests/capture/recording/synthetic_capture.hpp"
#include "tests/scratch_folder.hpp"

namespace keyscope::recording {
namespace {

constexpr const char* kKeys = "/entry/runs/keydiff/layer_00/keys";

// Two neighbours among the bfloat16 numbers, the nearer one, and of a tie the one whose last bit is 0.
float slow_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto below = std::bit_cast<float>(bits & 0xFFFF0000U);
  const auto above = std::bit_cast<float>((bits & 0xFFFF0000U) + 0x10000U);
  const double to_below = std::abs(static_cast<double>(value) - static_cast<double>(below));
  const double to_above = std::abs(static_cast<double>(above) - static_cast<double>(value));
  if (to_below != to_above) return to_below < to_above ? below : above;
  return (bits & 0x10000U) == 0 ? below : above;
}

class RowStore : public ::testing::Test {
 protected:
  std::vector<float> written_and_read(const std::vector<float>& values, StoreType store) {
    {
      hdf5::File file = hdf5::File::create(path_);
      hdf5::Group root = file.root();
      hdf5::Dataset dataset = create_row_dataset(root, "rows", store, {1, values.size(), 1}, {});
      store_rows(dataset, store, values, {0, 0, 0}, {1, values.size(), 1});
      file.close();
    }
    const hdf5::File file = hdf5::File::open(path_);
    const hdf5::Dataset dataset = file.root().open_dataset("rows");
    EXPECT_EQ(store_of(dataset), store);
    auto found = dataset.read<float>();
    std::filesystem::remove(path_);
    return found;
  }

  test::ScratchFolder folder_;
  std::filesystem::path path_ = folder_.path() / "rows.h5";
};

TEST_F(RowStore, RoundsToTheNearestAndTiesToEven) {
  const std::vector<float> values{0,           -0.0F,       1,      1.00390625F, 1.01171875F,
                                  -1.0039064F, 3.14159274F, 1e-39F, 6e37F};
  const auto found = written_and_read(values, StoreType::kBFloat16);
  EXPECT_EQ(found[3], 1) << "half way between 1 and 1.0078125";
  EXPECT_EQ(found[4], 1.015625F) << "half way between 1.0078125 and 1.015625";
  EXPECT_EQ(found[5], -1.0078125F);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(found[i], slow_bfloat16(values[i])) << values[i];
}

TEST_F(RowStore, RoundsEveryMagnitudeAlike) {
  std::vector<float> values;
  for (std::uint32_t i = 0; i < 40000; ++i) {
    const std::uint32_t bits = i * 2654435761U;
    if (const auto value = std::bit_cast<float>(bits); std::abs(value) < 3e38F) values.push_back(value);
  }
  const auto found = written_and_read(values, StoreType::kBFloat16);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(found[i], slow_bfloat16(values[i])) << values[i];
    ASSERT_EQ(std::bit_cast<std::uint32_t>(found[i]) & 0xFFFFU, 0U) << values[i];
    if (std::isnormal(values[i])) {
      ASSERT_LE(std::abs(found[i] - values[i]), store_rounding(StoreType::kBFloat16) * std::abs(values[i]));
    }
  }
}

TEST_F(RowStore, KeepsWhatIsNoNumber) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto found =
      written_and_read({kInfinity, -kInfinity, std::bit_cast<float>(0x7F800001U)}, StoreType::kBFloat16);
  EXPECT_EQ(found[0], kInfinity);
  EXPECT_EQ(found[1], -kInfinity);
  EXPECT_TRUE(std::isnan(found[2])) << "the lowest bit alone made it one";
}

TEST_F(RowStore, RoundsNothingElse) {
  const std::vector<float> values{1.00390625F, 3.14159274F};
  EXPECT_EQ(written_and_read(values, StoreType::kFloat32), values);
  EXPECT_EQ(written_and_read({1.00390625F}, StoreType::kFloat16), std::vector<float>{1.00390625F});
}

TEST(BFloat16Recording, GivesRoundedRowsAndExactStatistics) {
  const test::ScratchFolder folder;
  SyntheticOptions options;
  options.store = StoreType::kBFloat16;
  options.compress = true;
  const SyntheticCapture capture(options);
  auto memory = MemoryRecording::create();
  auto writer = make_recording_writer(folder.path() / "a.h5", false);
  for (RecordSink* sink : {static_cast<RecordSink*>(memory.get()), writer.get()}) {
    capture.send(*sink);
    sink->end(true);
  }
  const auto file = open_recording((folder.path() / "a.h5").string());
  EXPECT_EQ(file->info()->store, StoreType::kBFloat16);
  const auto expect_rounded = [](const RowMatrixF& found, const RowMatrixF& computed) {
    EXPECT_EQ(found, computed.unaryExpr(&slow_bfloat16));
    EXPECT_NE(found, computed);
  };
  expect_rounded(file->keys(1, 2, 1), memory->keys(1, 2, 1));
  expect_rounded(file->values(1, 2, 1), memory->values(1, 2, 1));
  expect_rounded(file->queries(1, 2, 3), memory->queries(1, 2, 3));
  EXPECT_EQ(file->attention(1, 2, 3), memory->attention(1, 2, 3));
  EXPECT_EQ(file->trace(1, 2, 1).attention_received, memory->trace(1, 2, 1).attention_received);
}

class HostileStore : public HostileFile {
 protected:
  static void say_rounded(hid_t file, const char* to) {
    const hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    const hid_t attribute =
        H5Acreate_by_name(file, kKeys, "rounded_to", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ASSERT_GE(H5Awrite(attribute, type, &to), 0);
    H5Aclose(attribute), H5Sclose(space), H5Tclose(type);
  }
};

TEST_F(HostileStore, UnknownRoundingIsRefused) {
  change([](hid_t file) { say_rounded(file, "int4"); });
  expect_refused(kKeys, "found float32 with rounded_to 'int4'; expected float32 with 'bfloat16'");
}

TEST_F(HostileStore, NumbersThatWereNotRoundedAreRefused) {
  const std::vector<float> keys(2 * 33 * 4, 1.00000012F);
  change([&](hid_t file) {
    overwrite(file, kKeys, H5T_NATIVE_FLOAT, keys.data());
    say_rounded(file, "bfloat16");
  });
  expect_refused(kKeys, "holds 1.0000001; expected numbers rounded to bfloat16");
}

}  // namespace
}  // namespace keyscope::recording
