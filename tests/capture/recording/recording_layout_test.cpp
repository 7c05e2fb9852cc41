#include "capture/recording/recording_layout.hpp"

#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include "base/errors.hpp"
#include "capture/recording/recording.hpp"
#include "tests/capture/recording/hostile_file.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/synthetic_capture.hpp"

namespace keyscope::recording {

// The file as other tools see it, through the HDF5 C API alone: names, types, shapes and chunks of the
// contract.

namespace {

class Layout : public ::testing::Test {
 protected:
  void record(const SyntheticOptions& options = {}) {
    const auto path = folder_.path() / "a.h5";
    SyntheticCapture capture(options);
    auto writer = make_recording_writer(path, true);
    capture.send(*writer);
    writer->end(true);
    file_ = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    ASSERT_GE(file_, 0);
  }
  ~Layout() override { H5Fclose(file_); }

  hid_t attribute(const std::string& object, const char* name) const {
    return H5Aopen_by_name(file_, object.c_str(), name, H5P_DEFAULT, H5P_DEFAULT);
  }

  // Only of a scalar, variable-length UTF-8 string.
  std::string text(const std::string& object, const char* name) const {
    const hid_t opened = attribute(object, name), type = H5Aget_type(opened), space = H5Aget_space(opened);
    EXPECT_GT(H5Tis_variable_str(type), 0) << object << " " << name;
    EXPECT_EQ(H5Tget_cset(type), H5T_CSET_UTF8) << object << " " << name;
    EXPECT_EQ(H5Sget_simple_extent_type(space), H5S_SCALAR) << object << " " << name;
    char* raw = nullptr;
    EXPECT_GE(H5Aread(opened, type, &raw), 0);
    std::string copy = raw == nullptr ? "" : raw;
    H5Dvlen_reclaim(type, space, H5P_DEFAULT, &raw);
    H5Sclose(space), H5Tclose(type), H5Aclose(opened);
    return copy;
  }

  // Only of a scalar int64.
  std::int64_t integer(const std::string& object, const char* name) const {
    const hid_t opened = attribute(object, name), type = H5Aget_type(opened), space = H5Aget_space(opened);
    EXPECT_GT(H5Tequal(type, H5T_STD_I64LE), 0) << object << " " << name;
    EXPECT_EQ(H5Sget_simple_extent_type(space), H5S_SCALAR) << object << " " << name;
    std::int64_t value = -1;
    EXPECT_GE(H5Aread(opened, H5T_NATIVE_INT64, &value), 0);
    H5Sclose(space), H5Tclose(type), H5Aclose(opened);
    return value;
  }

  using Shape = std::vector<hsize_t>;
  void expect_dataset(const std::string& path, hid_t type, const Shape& shape) const {
    const hid_t dataset = H5Dopen2(file_, path.c_str(), H5P_DEFAULT);
    ASSERT_GE(dataset, 0) << path;
    const hid_t found = H5Dget_type(dataset), space = H5Dget_space(dataset);
    EXPECT_GT(H5Tequal(found, type), 0) << path;
    Shape extent(H5Sget_simple_extent_ndims(space));
    H5Sget_simple_extent_dims(space, extent.data(), nullptr);
    EXPECT_EQ(extent, shape) << path;
    H5Sclose(space), H5Tclose(found), H5Dclose(dataset);
  }

  Shape chunk_of(const std::string& path, int& n_filters) const {
    const hid_t dataset = H5Dopen2(file_, path.c_str(), H5P_DEFAULT),
                properties = H5Dget_create_plist(dataset);
    Shape chunk(H5S_MAX_RANK);
    EXPECT_EQ(H5Pget_layout(properties), H5D_CHUNKED) << path;
    chunk.resize(H5Pget_chunk(properties, H5S_MAX_RANK, chunk.data()));
    n_filters = H5Pget_nfilters(properties);
    H5Pclose(properties), H5Dclose(dataset);
    return chunk;
  }

  test::ScratchFolder folder_;
  hid_t file_ = -1;
};

TEST_F(Layout, HasTheAttributesOfTheContract) {
  record();
  EXPECT_EQ(text("/", "NX_class"), "NXroot");
  EXPECT_EQ(text("/", "default"), "entry");
  EXPECT_EQ(integer("/", "keyscope_format"), 1);
  EXPECT_EQ(text("/entry", "NX_class"), "NXentry");
  EXPECT_EQ(text("/entry/provenance", "command"), "keyscope capture --out 'x y.h5'");
  EXPECT_EQ(text("/entry/provenance", "configuration"), R"({"block": 8})");
  for (const char* name : {"versions", "model_sha256", "prompt_sha256", "device", "schedule", "started"})
    EXPECT_NE(text("/entry/provenance", name), "") << name;
  EXPECT_EQ(integer("/entry/provenance", "seed"), 7);
  EXPECT_EQ(integer("/entry/provenance", "complete"), 1);
  EXPECT_EQ(text("/entry/model", "config"), R"({"model_type": "llama", "name": "Ünï"})");
  EXPECT_EQ(integer("/entry/model", "n_layers"), 3);
  EXPECT_EQ(integer("/entry/model", "n_heads"), 4);
  EXPECT_EQ(integer("/entry/model", "n_kv_heads"), 2);
  EXPECT_EQ(integer("/entry/model", "head_dim"), 8);
  EXPECT_EQ(integer("/entry/tokens", "n_prompt"), 50);
  EXPECT_EQ(text("/entry/runs/keydiff", "policy"), "keydiff");
  EXPECT_EQ(text("/entry/runs/keydiff", "parameters"), R"({"anchor": "mean"})");
  EXPECT_EQ(integer("/entry/runs/keydiff", "budget"), 12);
  EXPECT_EQ(integer("/entry/runs/none", "budget"), 0);
  EXPECT_EQ(integer("/entry/runs/none", "block_size"), 8);
  EXPECT_EQ(integer("/entry/runs/none", "n_prompt"), 50);
  EXPECT_EQ(integer("/entry/runs/none", "n_prompt_blocks"), 7);
  EXPECT_EQ(integer("/entry/runs/none", "replayed"), 0);
  EXPECT_EQ(integer("/entry/runs/none", "oracle"), 0);
}

TEST_F(Layout, HasTheDatasetsOfTheContract) {
  record();
  expect_dataset("/entry/tokens/id", H5T_STD_I32LE, {50});
  expect_dataset("/entry/tokens/text_offset", H5T_STD_I64LE, {51});
  const std::string run = "/entry/runs/keydiff/";
  expect_dataset(run + "block_start", H5T_STD_I32LE, {10});
  expect_dataset(run + "block_ms", H5T_IEEE_F32LE, {10});
  expect_dataset(run + "generated", H5T_STD_I32LE, {4});
  expect_dataset(run + "generated_text", H5T_STD_U8LE, {9});
  expect_dataset(run + "generated_text_offset", H5T_STD_I64LE, {5});
  expect_dataset(run + "top_logits", H5T_IEEE_F32LE, {10});
  expect_dataset(run + "top_ids", H5T_STD_I32LE, {10});
  expect_dataset(run + "logits", H5T_IEEE_F32LE, {5, 40});
  expect_dataset(run + "layer_02/keys", H5T_IEEE_F32LE, {2, 53, 8});
  expect_dataset(run + "layer_02/queries", H5T_IEEE_F32LE, {4, 53, 8});
  expect_dataset(run + "layer_02/values", H5T_IEEE_F32LE, {2, 53, 8});
  expect_dataset(run + "layer_02/evicted_at", H5T_STD_I32LE, {2, 53});
  expect_dataset(run + "layer_02/evicted_margin", H5T_IEEE_F32LE, {2, 53});
  expect_dataset(run + "layer_02/attention_received", H5T_IEEE_F64LE, {2, 53});
  expect_dataset(run + "layer_02/attention_queries", H5T_STD_I32LE, {2, 53});
  expect_dataset(run + "layer_02/attention_last", H5T_IEEE_F32LE, {2, 53});
  expect_dataset(run + "layer_02/attention", H5T_IEEE_F32LE, {4, 53, 53});
  EXPECT_EQ(H5Lexists(file_, "/entry/runs/keydiff/layer_01", H5P_DEFAULT), 0) << "not recorded";
}

TEST_F(Layout, NamesTheHeadsWhoseRowsItHas) {
  SyntheticOptions options;
  options.heads = {1};
  options.value_norms = true;
  record(options);
  const std::string layer = "/entry/runs/keydiff/layer_02/";
  expect_dataset(layer + "kv_heads", H5T_STD_I32LE, {1});
  expect_dataset(layer + "value_norms", H5T_IEEE_F32LE, {2, 53});
  expect_dataset(layer + "keys", H5T_IEEE_F32LE, {1, 53, 8});
  expect_dataset(layer + "queries", H5T_IEEE_F32LE, {2, 53, 8});
  expect_dataset(layer + "values", H5T_IEEE_F32LE, {1, 53, 8});
  expect_dataset(layer + "attention", H5T_IEEE_F32LE, {2, 53, 53});
  expect_dataset(layer + "evicted_at", H5T_STD_I32LE, {2, 53});
  expect_dataset(layer + "attention_window", H5T_IEEE_F32LE, {2, 53});
  expect_dataset(layer + "attention_entropy", H5T_IEEE_F32LE, {4, 50});
}

TEST_F(Layout, NamesNoHeadsWhereAllAreThereAndHasNothingUnasked) {
  record();
  for (const char* name : {"kv_heads", "value_norms"})
    EXPECT_EQ(H5Lexists(file_, ("/entry/runs/keydiff/layer_02/" + std::string(name)).c_str(), H5P_DEFAULT),
              0);
}

TEST_F(Layout, SaysWhatRowsWereRoundedTo) {
  SyntheticOptions options;
  options.store = StoreType::kBFloat16;
  record(options);
  const std::string layer = "/entry/runs/keydiff/layer_02/";
  for (const char* name : {"keys", "queries", "values"}) {
    expect_dataset(layer + name, H5T_IEEE_F32LE, {name[0] == 'q' ? 4U : 2U, 53, 8});
    EXPECT_EQ(text(layer + name, "rounded_to"), "bfloat16");
  }
  EXPECT_EQ(H5Aexists_by_name(file_, (layer + "attention").c_str(), "rounded_to", H5P_DEFAULT), 0);
}

TEST_F(Layout, StoresHalfPrecisionAsIeeeSays) {
  SyntheticOptions options;
  options.store = StoreType::kFloat16;
  record(options);
  const hid_t dataset = H5Dopen2(file_, "/entry/runs/none/layer_00/keys", H5P_DEFAULT),
              type = H5Dget_type(dataset);
  std::size_t sign = 0, exponent = 0, n_exponent = 0, mantissa = 0, n_mantissa = 0;
  H5Tget_fields(type, &sign, &exponent, &n_exponent, &mantissa, &n_mantissa);
  EXPECT_EQ(H5Tget_size(type), 2u);
  EXPECT_EQ(H5Tget_ebias(type), 15u);
  EXPECT_EQ((std::vector<std::size_t>{sign, exponent, n_exponent, mantissa, n_mantissa}),
            (std::vector<std::size_t>{15, 10, 5, 0, 10}));
  H5Tclose(type), H5Dclose(dataset);
}

TEST_F(Layout, ChunksOneHeadsRowsTogether) {
  SyntheticOptions options;
  options.attention = false;
  options.n_prompt = 5000;
  options.block_size = 1000;
  options.head_dim = 128;
  options.n_kv_heads = 1;
  options.n_heads = 1;
  options.layers = {0};
  record(options);
  int n_filters = -1;
  EXPECT_EQ(chunk_of("/entry/runs/none/layer_00/keys", n_filters), (Shape{1, 2048, 128})) << "1 MiB";
  EXPECT_EQ(n_filters, 0);
  EXPECT_EQ(chunk_of("/entry/tokens/id", n_filters), Shape{5000});
  EXPECT_EQ(n_filters, 2) << "shuffle and gzip";
}

TEST_F(Layout, CompressesAFinishedRecordingIfAsked) {
  SyntheticOptions options;
  options.compress = true;
  record(options);
  int n_filters = -1;
  chunk_of("/entry/runs/none/layer_00/keys", n_filters);
  EXPECT_EQ(n_filters, 2);
  EXPECT_EQ(H5Lexists(file_, "/entry/runs/none/layer_00/partial_attention_received", H5P_DEFAULT), 0);
  EXPECT_EQ(integer("/entry/provenance", "complete"), 1);
}

TEST(LayerGroupName, HasTwoOrMoreDigits) {
  EXPECT_EQ(layer_group_name(0), "layer_00");
  EXPECT_EQ(layer_group_name(31), "layer_31");
  EXPECT_EQ(layer_group_name(126), "layer_126");
}

}  // namespace

// Rows rounded to bfloat16: what other tools see, and that the file is held to what it says.

namespace {

constexpr const char* kKeydiffKeys = "/entry/runs/keydiff/layer_00/keys";

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
    const hid_t attribute = H5Acreate_by_name(file, kKeydiffKeys, "rounded_to", type, space, H5P_DEFAULT,
                                              H5P_DEFAULT, H5P_DEFAULT);
    ASSERT_GE(H5Awrite(attribute, type, &to), 0);
    H5Aclose(attribute), H5Sclose(space), H5Tclose(type);
  }
};

TEST_F(HostileStore, UnknownRoundingIsRefused) {
  change([](hid_t file) { say_rounded(file, "int4"); });
  expect_refused(kKeydiffKeys, "found float32 with rounded_to 'int4'; expected float32 with 'bfloat16'");
}

TEST_F(HostileStore, NumbersThatWereNotRoundedAreRefused) {
  const std::vector<float> keys(264, 1.00000012F);
  change([&](hid_t file) {
    overwrite(file, kKeydiffKeys, H5T_NATIVE_FLOAT, keys.data());
    say_rounded(file, "bfloat16");
  });
  expect_refused(kKeydiffKeys, "holds 1.0000001; expected numbers rounded to bfloat16");
}

}  // namespace

}  // namespace keyscope::recording
