#include "analysis/logit_divergence.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "goldens.hpp"
#include "sample_rows.hpp"

namespace keyscope::analysis {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(LogitDivergence, MatchesSciPy) {
  const auto golden = read_goldens("analysis_goldens.json", "logits");
  const RowMatrixD reference = sample_rows(71, 12, 500).cast<double>() * 16;
  const RowMatrixD other = reference + sample_rows(72, 12, 500).cast<double>() * 4;
  const auto divergence = logit_divergence(reference.cast<float>(), other.cast<float>());
  EXPECT_NEAR(divergence.kl_nats, golden["kl_nats"].get<double>(), 1e-12);
  EXPECT_DOUBLE_EQ(divergence.top1_agreement, golden["top1_agreement"].get<double>());
}

TEST(LogitDivergence, WorkedByHand) {
  RowMatrixF reference(2, 2), other(2, 2);
  reference << 0, 0, 5, 5 + std::log(3.0F);
  other << std::log(3.0F), 0, 5, 5 + std::log(3.0F);
  const auto divergence = logit_divergence(reference, other);
  EXPECT_NEAR(divergence.kl_nats, (0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(0.5 / 0.25)) / 2, 1e-7);
  EXPECT_EQ(divergence.top1_agreement, 1) << "of equal logits the first counts";
}

TEST(LogitDivergence, IsZeroAgainstItselfAndFreeOfShifts) {
  const RowMatrixF logits = sample_rows(1, 5, 50) * 1000;
  EXPECT_EQ(logit_divergence(logits, logits).kl_nats, 0);
  const RowMatrixF shifted = logits.array() + 4096;
  EXPECT_NEAR(logit_divergence(logits, shifted).kl_nats, 0, 1e-2);
}

TEST(LogitDivergence, TokensThatCannotCome) {
  RowMatrixF reference(1, 3), other(1, 3);
  reference << 0, 0, -kInf;
  other << 0, 0, 0;
  EXPECT_NEAR(logit_divergence(reference, other).kl_nats, std::log(1.5), 1e-15);
  EXPECT_EQ(logit_divergence(reference, reference).kl_nats, 0);
  EXPECT_EQ(logit_divergence(other, reference).kl_nats, std::numeric_limits<double>::infinity());
}

TEST(LogitDivergence, RefusesWhatPredictsNothing) {
  const RowMatrixF logits = sample_rows(2, 2, 3);
  RowMatrixF bad = logits;
  EXPECT_THROW(logit_divergence(logits, logits.topRows(1)), InvalidInput);
  EXPECT_THROW(logit_divergence(RowMatrixF(0, 3), RowMatrixF(0, 3)), InvalidInput);
  bad(1, 1) = kInf;
  EXPECT_THROW(logit_divergence(logits, bad), InvalidInput);
  bad.row(1).setConstant(-kInf);
  EXPECT_THROW(logit_divergence(logits, bad), InvalidInput);
}

}  // namespace
}  // namespace keyscope::analysis
