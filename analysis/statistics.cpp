#include "analysis/logit_divergence.hpp"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

using Eigen::ArrayXd;
using Eigen::Index;

struct Prediction {
  ArrayXd log_probabilities;
  Index top;
};

Prediction predict(const MatrixView& logits, Index row) {
  const ArrayXd wide = logits.row(row).cast<double>().transpose();
  Prediction prediction{{}, 0};
  double largest = -std::numeric_limits<double>::infinity();
  for (Index token = 0; token < wide.size(); ++token) {
    if (std::isnan(wide[token]) || wide[token] == std::numeric_limits<double>::infinity())
      throw InvalidInput(fmt::format("logits: row {}, token {} is {}", row, token, wide[token]));
    if (wide[token] > largest) {
      largest = wide[token];
      prediction.top = token;
    }
  }
  if (std::isinf(largest)) throw InvalidInput(fmt::format("logits: row {} has no finite value", row));
  prediction.log_probabilities = wide - largest;
  prediction.log_probabilities -= std::log(prediction.log_probabilities.exp().sum());
  return prediction;
}

}  // namespace

LogitDivergence logit_divergence(const MatrixView& reference, const MatrixView& other) {
  if (reference.rows() == 0 || reference.rows() != other.rows() || reference.cols() != other.cols())
    throw InvalidInput(fmt::format("logits: ({}, {}) against ({}, {}) cannot be compared", reference.rows(),
                                   reference.cols(), other.rows(), other.cols()));
  LogitDivergence divergence;
  for (Index row = 0; row < reference.rows(); ++row) {
    const Prediction p = predict(reference, row);
    const Prediction q = predict(other, row);
    for (Index token = 0; token < reference.cols(); ++token) {
      const double probability = std::exp(p.log_probabilities[token]);
      if (probability > 0)  // a token that cannot come adds nothing, whatever the other says of it
        divergence.kl_nats += probability * (p.log_probabilities[token] - q.log_probabilities[token]);
    }
    divergence.top1_agreement += p.top == q.top ? 1 : 0;
  }
  const auto n = static_cast<double>(reference.rows());
  divergence.kl_nats /= n;
  divergence.top1_agreement /= n;
  return divergence;
}

}  // namespace keyscope::analysis
