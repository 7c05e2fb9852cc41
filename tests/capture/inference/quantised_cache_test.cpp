// Caches that quantise: which rows are rounded when, and that everything downstream sees the rounded ones.
// What a whole run under them retains is checked against goldens/block_reference.py in eviction_test.cpp.

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "capture/inference/aten_arithmetic.hpp"
#include "capture/inference/kernel_arithmetic.hpp"
#include "tests/capture/inference/arithmetics.hpp"
#include "tests/support/captured.hpp"
#include "tests/support/recording_comparison.hpp"
#include "tests/support/sample_rows.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::capture {
namespace {

using analysis::cache_format;
using analysis::CacheFormat;
using analysis::RowRounding;

constexpr std::int64_t kHeadDim = 40;

at::Tensor tensor_of(const RowMatrixF& rows) {
  return at::from_blob(const_cast<float*>(rows.data()), {rows.rows(), rows.cols()},
                       at::TensorOptions().dtype(at::kFloat))
      .clone();
}

// As analysis::round_rows makes them, brought to a dtype.
at::Tensor plainly_rounded(const at::Tensor& rows, const RowRounding& how) {
  at::Tensor floats = rows.to(at::kFloat).clone();
  analysis::round_rows(floats.mutable_data_ptr<float>(), floats.size(0), floats.size(1), how);
  return floats.to(rows.scalar_type());
}

const std::vector<CacheFormat>& formats() {
  static const std::vector<CacheFormat> all{cache_format("int4"),          cache_format("int8"),
                                            cache_format("int4", "token"), cache_format("int8", "token"),
                                            cache_format("fp8"),           cache_format("fp8", "token")};
  return all;
}

std::string name_of(const CacheFormat& format) {
  return std::string(cache_dtype_name(format.dtype)) + "_" + std::string(cache_scales_name(format.scales));
}

TEST(QuantisedRows, AtenRoundsThemToTheSameBits) {
  for (const CacheFormat& format : formats())
    for (const bool keys : {true, false})
      for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf})
        for (const std::int64_t width : {std::int64_t{8}, std::int64_t{32}, kHeadDim}) {
          at::Tensor rows = tensor_of(sample_rows(7, 64, width, 0.2, 6)).to(dtype);
          rows[3].zero_();
          rows.select(1, 2).fill_(0.7);
          const RowRounding how{format, keys, 0.003F};
          EXPECT_TRUE(at::equal(rounded_rows(rows, how), plainly_rounded(rows, how)))
              << name_of(format) << " " << dtype << " " << width;
        }
}

TEST(QuantisedRows, AtenKeepsWhatIsNotFinite) {
  for (const CacheFormat& format : formats()) {
    at::Tensor rows = tensor_of(sample_rows(7, 32, 8));
    rows[5][3] = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(rounded_rows(rows, {format, true})[5][3].isfinite().item<bool>()) << name_of(format);
  }
}

// A cache of one head and of rows that are given, of either arithmetic.
class Cache {
 public:
  Cache(Arithmetic arithmetic, at::ScalarType dtype, const CacheFormat& format) : dtype_(dtype) {
    const std::vector<std::int64_t> capacity{200};
    if (arithmetic == Arithmetic::kAten)
      aten_ = std::make_unique<AtenCache>(capacity, kHeadDim, at::TensorOptions().dtype(dtype), format);
    else
      kernels_ = std::make_unique<KernelCache>(capacity, kHeadDim, dtype, format);
  }

  KvCache& cache() { return aten_ ? static_cast<KvCache&>(*aten_) : *kernels_; }

  // Rows [first, first + n) of `all`, values their doubles.
  void append(const at::Tensor& all, std::int64_t first, std::int64_t n) {
    const at::Tensor keys = all.narrow(0, first, n).to(dtype_).contiguous(), values = keys * 2;
    if (aten_) return aten_->append(keys.unsqueeze(0), values.unsqueeze(0), first);
    const KernelCache::NewRows to = kernels_->append(0, n, first);
    std::memcpy(to.keys, keys.const_data_ptr(), keys.nbytes());
    std::memcpy(to.values, values.const_data_ptr(), values.nbytes());
    kernels_->rows_filled(0, n);
  }

  at::Tensor rows(RowPart part) {
    if (aten_) return (part == RowPart::kKeys ? aten_->keys() : aten_->values())[0].clone();
    const HeadRows rows = kernels_->rows(0);
    return at::from_blob(const_cast<void*>(part == RowPart::kKeys ? rows.keys : rows.values),
                         {rows.n_rows(), kHeadDim}, at::TensorOptions().dtype(dtype_))
        .clone();
  }

 private:
  at::ScalarType dtype_;
  std::unique_ptr<AtenCache> aten_;
  std::unique_ptr<KernelCache> kernels_;
};

class QuantisedCache : public ::testing::TestWithParam<std::tuple<Arithmetic, at::ScalarType>> {
 protected:
  static Cache make(const std::string& dtype, const std::string& scales = "") {
    return {std::get<0>(GetParam()), std::get<1>(GetParam()), cache_format(dtype, scales)};
  }
  static at::Tensor sample() {
    return tensor_of(sample_rows(12, 130, kHeadDim, 0.1, 9)).to(std::get<1>(GetParam()));
  }
};

void expect_equal(const at::Tensor& found, const at::Tensor& expected, const std::string& what) {
  EXPECT_TRUE(at::equal(found, expected)) << what;
}

TEST_P(QuantisedCache, KeysWaitUntilTheyAreAGroup) {
  Cache cache = make("int4");
  const at::Tensor all = sample();
  const RowRounding keys{cache_format("int4"), true}, values{cache_format("int4"), false};
  cache.append(all, 0, 31);
  expect_equal(cache.rows(RowPart::kKeys), all.narrow(0, 0, 31), "all wait");
  expect_equal(cache.rows(RowPart::kValues), plainly_rounded(all.narrow(0, 0, 31) * 2, values), "values");
  EXPECT_EQ(cache.cache().stored_rows(0).n_waiting, 31);
  EXPECT_EQ(cache.cache().settled_rows(0).size(), 0);
  cache.append(all, 31, 2);
  expect_equal(cache.rows(RowPart::kKeys).narrow(0, 0, 32), plainly_rounded(all.narrow(0, 0, 32), keys),
               "the first group");
  expect_equal(cache.rows(RowPart::kKeys)[32], all[32], "the next one waits");
  EXPECT_EQ(cache.cache().settled_rows(0).size(), 31);
  cache.append(all, 33, 64);
  const at::Tensor groups = cache.rows(RowPart::kKeys).narrow(0, 0, 96);
  expect_equal(groups, plainly_rounded(all.narrow(0, 0, 96), keys), "three groups");
  EXPECT_EQ(cache.cache().settled_rows(0).first, 32);
  EXPECT_EQ(cache.cache().settled_rows(0).end, 33);
  EXPECT_EQ(cache.cache().stored_rows(0).n_groups, 3);
}

// What remains of a group stays as it was rounded, and rows that wait may go as well: a group is then of
// those that are left and of what comes.
TEST_P(QuantisedCache, EvictionChangesNoRow) {
  Cache cache = make("int8");
  const at::Tensor all = sample();
  cache.append(all, 0, 40);
  const at::Tensor before = cache.rows(RowPart::kKeys);
  cache.cache().retain({{0, 5, 31, 33, 39}});
  const at::Tensor after = cache.rows(RowPart::kKeys);
  const std::array<std::int64_t, 5> kept{0, 5, 31, 33, 39};
  for (std::size_t i = 0; i < kept.size(); ++i)
    expect_equal(after[static_cast<std::int64_t>(i)], before[kept[i]], "row");
  EXPECT_EQ(cache.cache().stored_rows(0).n_waiting, 2);
  EXPECT_EQ(cache.cache().stored_rows(0).n_groups, 1);
  cache.append(all, 40, 30);
  const at::Tensor group = at::cat({all.narrow(0, 33, 1), all.narrow(0, 39, 1), all.narrow(0, 40, 30)});
  expect_equal(cache.rows(RowPart::kKeys).narrow(0, 3, 32),
               plainly_rounded(group, {cache_format("int8"), true}), "the second group");
  expect_equal(cache.rows(RowPart::kKeys).narrow(0, 0, 3), after.narrow(0, 0, 3), "the first");
  cache.cache().retain({{3, 4}});
  EXPECT_EQ(cache.cache().stored_rows(0).n_groups, 1);
  cache.cache().retain({{}});
  EXPECT_EQ(cache.cache().stored_rows(0).n_groups, 0);
}

// With a scale for each row, it does not matter in which blocks rows come.
TEST_P(QuantisedCache, RowsWithScalesOfTheirOwnDoNotWait) {
  for (const char* dtype : {"int4", "int8", "fp8"}) {
    Cache cache = make(dtype, "token");
    const at::Tensor all = sample();
    cache.append(all, 0, 3);
    cache.append(all, 3, 40);
    expect_equal(cache.rows(RowPart::kKeys),
                 plainly_rounded(all.narrow(0, 0, 43), {cache_format(dtype, "token"), true}), dtype);
    EXPECT_EQ(cache.cache().stored_rows(0).n_waiting, 0);
  }
}

TEST_P(QuantisedCache, AHeadsScaleIsThatOfItsFirstRows) {
  Cache cache = make("fp8");
  const at::Tensor all = sample();
  cache.append(all, 0, 16);
  cache.append(all * 3, 16, 16);  // beyond what the first ones leave room for, in part
  const float largest = all.narrow(0, 0, 16).to(at::kFloat).abs().max().item<float>();
  const RowRounding keys{cache_format("fp8"), true, largest / 224};
  expect_equal(cache.rows(RowPart::kKeys).narrow(0, 16, 16),
               plainly_rounded((all * 3).narrow(0, 16, 16), keys), "keys");
}

TEST_P(QuantisedCache, ACopyGoesOnWithItsGroups) {
  Cache cache = make("int4"), copy = make("int4");
  const at::Tensor all = sample();
  cache.append(all, 0, 40);
  copy.append(all, 0, 70);
  copy.cache().copy_rows(cache.cache());
  cache.append(all, 40, 30);
  copy.append(all, 40, 30);
  expect_equal(copy.rows(RowPart::kKeys).narrow(0, 0, 70), cache.rows(RowPart::kKeys).narrow(0, 0, 70),
               "keys");
  EXPECT_EQ(copy.cache().stored_rows(0).n_waiting, 6);
}

INSTANTIATE_TEST_SUITE_P(Caches, QuantisedCache,
                         ::testing::Combine(test::both_arithmetics(),
                                            ::testing::Values(at::kFloat, at::kBFloat16)));

CaptureOptions quantised_options(const std::string& dtype, const std::string& scales = "") {
  CaptureOptions options = test::full_cache_options();
  options.cache_formats = {CacheFormat{}, cache_format(dtype, scales)};
  return options;
}

// 50 tokens in blocks of 16: a group of 32 fills with the second block, and 18 keys wait. In layer 0 keys do
// not depend on the cache, so that they can be rounded from the other run's.
void expect_rounded_rows(const recording::Recording& recording) {
  for (int head = 0; head < 2; ++head) {
    RowMatrixF keys = recording.keys(0, 0, head), values = recording.values(0, 0, head);
    analysis::round_rows(keys.data(), 32, keys.cols(), {cache_format("int4"), true});
    analysis::round_rows(values.data(), values.rows(), values.cols(), {cache_format("int4"), false});
    EXPECT_EQ(recording.keys(1, 0, head), keys);
    EXPECT_EQ(recording.values(1, 0, head), values);
    EXPECT_NE(recording.keys(1, 1, head), recording.keys(0, 1, head));
  }
}

TEST(QuantisedCapture, RecordsKeysAsTheCacheHoldsThem) {
  const test::ScratchFolder folder;
  for (const Schedule schedule : {Schedule::kBlock, Schedule::kLayer, Schedule::kTogether}) {
    CaptureOptions options = quantised_options("int4");
    options.schedule = schedule;
    const auto captured = test::run_in_memory(test::tiny_model(), options);
    expect_rounded_rows(*captured.recording);
    const auto out = folder.path() / ("schedule" + std::to_string(static_cast<int>(schedule)) + ".h5");
    const auto file = recording::open_recording(test::capture_to(out, options));
    expect_rounded_rows(*file);
    EXPECT_EQ(file->info()->runs[1].plan.name, "none-int4");
    EXPECT_EQ(file->info()->runs[1].plan.cache_format, cache_format("int4"));
    EXPECT_FALSE(file->info()->runs[0].plan.cache_format.quantises());
    // A group of 32 keys of 8 in codes, 18 keys in float32, and 50 values with one scale each.
    const std::int64_t packed = 32 * 4 + 8 * 8 + 18 * 8 * 4 + 50 * (4 + 8);
    EXPECT_THAT(file->statistics(1, 0).packed_bytes, ::testing::ElementsAre(packed, packed));
    EXPECT_THAT(file->statistics(1, 0).held_bytes, ::testing::Each(2 * 50 * 8 * 4));
    EXPECT_TRUE(file->statistics(0, 0).held_bytes.empty());
    EXPECT_EQ(captured.outcomes[1].packed_bytes, 4 * packed);
  }
}

// Where rows of all layers go together, the bytes are those that are left.
TEST(QuantisedCapture, BytesAreThoseAfterTheEviction) {
  for (const char* policy : {"keydiff", "keydiff:granularity=model", "keydiff:split=cake"}) {
    CaptureOptions options = quantised_options("int8");
    options.policies = test::policies({policy});
    options.cache_formats = {cache_format("int8")};
    options.budget = 12;
    options.schedule = Schedule::kBlock;
    const auto captured = test::run_in_memory(test::tiny_model(), options);
    if (!std::string_view(policy).ends_with("cake")) {  // by which layers have rows of their own number
      EXPECT_THAT(captured.recording->statistics(0, 0).held_bytes, ::testing::Each(2 * 12 * 8 * 4)) << policy;
    }
    EXPECT_EQ(captured.outcomes[0].held_bytes, 4 * 2 * 12 * 8 * 4) << policy;
  }
}

// Tokens that are generated fill groups as well.
TEST(QuantisedCapture, GeneratedTokensFillGroups) {
  CaptureOptions options = quantised_options("int8");
  options.generate = 20;
  const auto captured = test::run_in_memory(test::tiny_model(), options);
  if (captured.outcomes[0].generated != captured.outcomes[1].generated) GTEST_SKIP() << "other texts";
  RowMatrixF keys = captured.recording->keys(0, 0, 1);
  analysis::round_rows(keys.data(), 64, keys.cols(), {cache_format("int8"), true});
  EXPECT_EQ(captured.recording->keys(1, 0, 1), keys);
}

TEST(QuantisedCapture, IsTheSameUnderEverySchedule) {
  for (const CacheFormat& format : formats()) {
    CaptureOptions options = test::full_cache_options();
    options.policies = test::policies({"none", "keydiff", "h2o", "snapkv"});
    options.budget = 36;
    options.generate = 3;
    options.cache_formats = {format};
    const auto by_blocks = test::run_in_memory(test::tiny_model(), options);
    for (const Schedule schedule : {Schedule::kLayer, Schedule::kTogether}) {
      options.schedule = schedule;
      const auto other = test::run_in_memory(test::tiny_model(), options);
      for (int run = 0; run < 4; ++run)
        for (int layer = 0; layer < 2; ++layer) {
          EXPECT_TRUE(
              other.recording->keys(run, layer, 1).isApprox(by_blocks.recording->keys(run, layer, 1), 1e-5F))
              << name_of(format) << ", run " << run << ", layer " << layer;
          EXPECT_EQ(other.recording->trace(run, layer, 0).evicted_at,
                    by_blocks.recording->trace(run, layer, 0).evicted_at);
        }
    }
  }
}

TEST(QuantisedCapture, RunsAreNamedAfterTheirPolicyAndWhereThereAreSeveralTheirDtype) {
  CaptureOptions options = test::full_cache_options();
  options.policies = test::policies({"none", "keydiff", "keydiff"});
  options.budget = 20;
  const auto names = [&] {
    std::vector<std::string> found;
    for (const auto& run : plan_capture(test::tiny_model(), options).runs) found.push_back(run.name);
    return found;
  };
  options.cache_formats = {cache_format("int4")};
  EXPECT_THAT(names(), ::testing::ElementsAre("none", "keydiff", "keydiff-2"));
  options.cache_formats = {cache_format("model"), cache_format("fp8")};
  EXPECT_THAT(names(), ::testing::ElementsAre("none", "keydiff", "keydiff-2", "none-fp8", "keydiff-fp8",
                                              "keydiff-fp8-2"));
}

TEST(QuantisedCapture, RefusesWhatCannotBe) {
  const auto refusal = [](const CaptureOptions& options) {
    try {
      plan_capture(test::tiny_model(), options);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CaptureOptions options = quantised_options("int4");
  options.cache_positions = true;
  EXPECT_THAT(refusal(options), ::testing::HasSubstr("take --cache-scales token"));
  options = quantised_options("int4", "token");
  options.cache_positions = true;
  EXPECT_EQ(refusal(options), "");
  options = quantised_options("int4");
  options.cache_formats = {cache_format("int4"), cache_format("int4", "token")};
  EXPECT_EQ(refusal(options), "--cache-dtype: int4 is given twice");
  options.cache_formats.clear();
  EXPECT_EQ(refusal(options), "--cache-dtype: no dtype was given");
}

TEST(QuantisedCapture, IsNotReplayed) {
  const test::ScratchFolder folder;
  CaptureOptions options = test::full_cache_options();
  options.cache_formats = {cache_format("int4")};
  const std::string source = test::capture_to(folder.path() / "quantised.h5", options);
  try {
    test::replay_to(folder.path() / "replayed.h5", source, test::replay_options({"keydiff"}));
    FAIL() << "it was replayed";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("capture --cache-dtype int4"));
  }
}

}  // namespace
}  // namespace keyscope::capture
