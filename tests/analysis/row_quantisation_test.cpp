#include "analysis/row_quantisation.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "analysis/matrix_view.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "tests/support/goldens.hpp"
#include "tests/support/sample_rows.hpp"

namespace keyscope::analysis {
namespace {

std::vector<std::uint32_t> bits_of(const float* numbers, std::size_t n) {
  std::vector<std::uint32_t> bits(n);
  std::transform(numbers, numbers + n, bits.begin(), [](float x) { return std::bit_cast<std::uint32_t>(x); });
  return bits;
}

RowRounding rounding(const std::string& dtype, const std::string& scales, bool keys = true, float scale = 1) {
  return {cache_format(dtype, scales), keys, scale};
}

RowMatrixF rounded(RowMatrixF rows, const RowRounding& how) {
  round_rows(rows.data(), rows.rows(), rows.cols(), how);
  return rows;
}

TEST(Quantisation, RoundsAsNumPyToTheBit) {
  for (const auto& golden : read_goldens("row_quantisation_goldens.json", "rows")) {
    const RowMatrixF drawn =
        sample_rows(golden["seed"].get<std::uint64_t>(), golden["rows"].get<Eigen::Index>(),
                    golden["cols"].get<Eigen::Index>(), golden["offset"].get<double>(),
                    golden["halve_every"].get<Eigen::Index>());
    const RowMatrixF rows =
        rounded(drawn, rounding(golden["dtype"], golden["scales"], golden["keys"], golden["scale"]));
    EXPECT_EQ(bits_of(rows.data(), rows.size()), golden["bits"].get<std::vector<std::uint32_t>>())
        << golden["dtype"] << " " << golden["scales"] << " seed " << golden["seed"];
  }
}

TEST(Quantisation, RoundsToE4m3AsItsTableSays) {
  const auto golden = read_goldens("row_quantisation_goldens.json", "e4m3");
  const auto given = golden["given"].get<std::vector<std::uint32_t>>();
  const auto expected = golden["bits"].get<std::vector<std::uint32_t>>();
  for (std::size_t i = 0; i < given.size(); ++i)
    EXPECT_EQ(round_to_e4m3(std::bit_cast<float>(given[i])), std::bit_cast<float>(expected[i]))
        << std::bit_cast<float>(given[i]);
}

TEST(Quantisation, ByHand) {
  // From 0 to 15 in int4: a step of 1, and what lies in the middle goes to the even neighbour.
  RowMatrixF row(1, 4);
  row << 0, 15, 2.5F, 3.5F;
  EXPECT_EQ(rounded(row, rounding("int4", "token")), (RowMatrixF(1, 4) << 0, 15, 2, 4).finished());
  // 448 is the largest of E4M3, whose neighbours there are 32 apart.
  row << 448, 17, -100, 0;
  EXPECT_EQ(rounded(row, rounding("fp8", "token")), (RowMatrixF(1, 4) << 448, 16, -96, 0).finished());
  // With a head's scale of 2, everything beyond 896 is cut off.
  row << 1000, 34, -2000, 2;
  EXPECT_EQ(rounded(row, rounding("fp8", "head", true, 2)),
            (RowMatrixF(1, 4) << 896, 32, -896, 2).finished());
}

struct Grid {
  std::string dtype, scales;
};

class EveryGrid : public ::testing::TestWithParam<Grid> {};

// In float32, where the largest number of a group is its zero point and all steps, which round.
TEST_P(EveryGrid, RoundsOnceAndForAll) {
  const RowRounding how = rounding(GetParam().dtype, GetParam().scales, true, 0.01F);
  for (unsigned seed = 1; seed < 20; ++seed) {
    const RowMatrixF once = rounded(sample_rows(seed, 32, 24, 0.3), how), twice = rounded(once, how);
    EXPECT_LE((twice - once).cwiseAbs().maxCoeff(), 4e-7F) << "seed " << seed;
  }
}

TEST_P(EveryGrid, LeavesZerosAndWhatIsTheSame) {
  const RowRounding how = rounding(GetParam().dtype, GetParam().scales);
  EXPECT_EQ(rounded(RowMatrixF::Zero(32, 40), how), RowMatrixF::Zero(32, 40));
  if (how.format.dtype != CacheDtype::kFp8) {
    const RowMatrixF same = RowMatrixF::Constant(32, 40, 5.3F);
    EXPECT_EQ(rounded(same, how), same);
  }
}

// Numbers too small for a scale become one number or zero, and nothing is divided by zero.
TEST_P(EveryGrid, TakesSubnormalNumbers) {
  RowMatrixF rows = sample_rows(3, 32, 24) * std::numeric_limits<float>::min();
  const RowMatrixF result = rounded(rows, rounding(GetParam().dtype, GetParam().scales));
  EXPECT_TRUE(result.allFinite());
  EXPECT_LE((result - rows).cwiseAbs().maxCoeff(), std::numeric_limits<float>::min());
}

// What attention refuses is not rounded away.
TEST_P(EveryGrid, KeepsWhatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()})
    for (const Eigen::Index at : {0, 5, 23}) {
      RowMatrixF rows = sample_rows(4, 32, 24);
      rows(7, at) = bad;
      EXPECT_FALSE(std::isfinite(rounded(rows, rounding(GetParam().dtype, GetParam().scales))(7, at)));
    }
}

INSTANTIATE_TEST_SUITE_P(Formats, EveryGrid,
                         ::testing::Values(Grid{"int4", "channel"}, Grid{"int8", "channel"},
                                           Grid{"int4", "token"}, Grid{"int8", "token"}, Grid{"fp8", "token"},
                                           Grid{"fp8", "head"}),
                         [](const auto& test) { return test.param.dtype + "_" + test.param.scales; });

// Integers: half a step of the group, and of each group its own.
TEST(Quantisation, IsWrongByHalfAStepAtMost) {
  for (const auto& [dtype, levels] : {std::pair{"int4", 15.0}, {"int8", 255.0}}) {
    const RowMatrixF rows = sample_rows(9, 96, 40, 0.2, 3);
    const RowMatrixF keys = rounded(rows, rounding(dtype, "channel"));
    for (Eigen::Index first = 0; first < 96; first += 32)
      for (Eigen::Index channel = 0; channel < 40; ++channel) {
        const auto group = rows.block(first, channel, 32, 1);
        const double step = (double{group.maxCoeff()} - group.minCoeff()) / levels;
        EXPECT_LE((keys.block(first, channel, 32, 1) - group).cwiseAbs().maxCoeff(), step * 0.50002 + 1e-7);
      }
    const RowMatrixF values = rounded(rows, rounding(dtype, "channel", false));
    for (Eigen::Index row = 0; row < 96; ++row)
      for (const auto& [first, n] : {std::pair{0, 32}, {32, 8}}) {
        const auto group = rows.block(row, first, 1, n);
        const double step = (double{group.maxCoeff()} - group.minCoeff()) / levels;
        EXPECT_LE((values.block(row, first, 1, n) - group).cwiseAbs().maxCoeff(), step * 0.50002 + 1e-7);
      }
  }
}

// One sixteenth of the number, or half a step of 2^-9 scales where that is more.
TEST(Quantisation, Fp8IsWrongByASixteenthAtMost) {
  const RowMatrixF rows = sample_rows(10, 64, 32, 0, 4), found = rounded(rows, rounding("fp8", "token"));
  for (Eigen::Index row = 0; row < rows.rows(); ++row) {
    const float scale = rows.row(row).cwiseAbs().maxCoeff() / 448;
    for (Eigen::Index i = 0; i < rows.cols(); ++i)
      EXPECT_LE(std::abs(found(row, i) - rows(row, i)),
                std::max(std::abs(rows(row, i)) / 16, scale * 0x1p-10F) * 1.0001F);
  }
}

TEST(Quantisation, HeadScalesLeaveRoom) {
  EXPECT_EQ(head_scale(448, true), 2);
  EXPECT_EQ(head_scale(448, false), 4);
  EXPECT_EQ(head_scale(0, true), 1);
}

TEST(Quantisation, CountsPackedBytes) {
  const CachedRows rows{.n_rows = 70, .n_waiting = 6, .n_groups = 3, .head_dim = 40, .element_bytes = 2};
  EXPECT_EQ(held_bytes(rows), 2 * 70 * 40 * 2);
  EXPECT_EQ(packed_bytes(rows, {}), held_bytes(rows));
  // Keys: 64 in codes, three groups of 40 channels with scale and zero point, six as they are. Values: codes,
  // and two groups of channels each.
  EXPECT_EQ(packed_bytes(rows, cache_format("int4")),
            (64 * 20 + 3 * 40 * 8 + 6 * 40 * 2) + 70 * (20 + 2 * 8));
  EXPECT_EQ(packed_bytes(rows, cache_format("int8", "token")), 2 * 70 * (40 + 2 * 8));
  EXPECT_EQ(packed_bytes(rows, cache_format("fp8", "token")), 2 * 70 * (40 + 4));
  EXPECT_EQ(packed_bytes(rows, cache_format("fp8")), 2 * (70 * 40 + 4));
}

TEST(Quantisation, FormatsGoByTheirNames) {
  EXPECT_EQ(cache_format("int4").scales, CacheScales::kChannel);
  EXPECT_EQ(cache_format("fp8").scales, CacheScales::kHead);
  EXPECT_EQ(cache_format("model"), CacheFormat{});
  EXPECT_TRUE(cache_format("int8").groups_keys());
  EXPECT_FALSE(cache_format("int8", "token").groups_keys());
  const auto refusal = [](const std::string& dtype, const std::string& scales) {
    try {
      cache_format(dtype, scales);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal("int3", ""), "--cache-dtype: there is no 'int3'; expected one of model, fp8, int8, int4");
  EXPECT_EQ(refusal("int4", "row"),
            "--cache-scales: there is no 'row'; expected one of channel, token, head");
  EXPECT_EQ(refusal("fp8", "channel"),
            "--cache-scales: fp8 has no scales by channel; expected head or token");
  EXPECT_EQ(refusal("int8", "head"), "--cache-scales: int8 has no scales by head; expected channel or token");
}

}  // namespace
}  // namespace keyscope::analysis
