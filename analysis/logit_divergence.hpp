#pragma once

#include "analysis/matrix_view.hpp"

namespace keyscope::analysis {

// How far next-token predictions moved away from reference ones. Means over the rows.
struct LogitDivergence {
  double kl_nats = 0;         // KL(reference || other) of the softmaxes
  double top1_agreement = 0;  // share of rows whose largest logit is the same token; the first of equal ones
};

// reference, other: (n_positions, vocab) logits, at least one row; -inf is a token that cannot come
//   throws InvalidInput on sizes that do not match, no rows, a NaN or +inf, or a row of -inf alone
LogitDivergence logit_divergence(const MatrixView& reference, const MatrixView& other);

}  // namespace keyscope::analysis
