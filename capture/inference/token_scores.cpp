#include "capture/inference/token_scores.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::capture {
namespace {

constexpr std::int64_t kLogitsAtOnce = std::int64_t{1} << 22;

// (n, vocab), row after row.
at::Tensor checked_logits(const Transformer& transformer, const at::Tensor& hidden, std::int64_t first) {
  const at::Tensor logits = transformer.logits(hidden).contiguous();
  const float* data = logits.const_data_ptr<float>();
  if (!std::all_of(data, data + logits.numel(), [](float logit) { return std::isfinite(logit); }))
    throw InvalidInput(
        fmt::format("the logits of positions {} to {} hold NaN or Inf; are the weights damaged, "
                    "or too large for this --dtype?",
                    first, first + hidden.size(0) - 1));
  return logits;
}

double log_probability(std::span<const float> logits, std::int32_t id) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return logits[static_cast<std::size_t>(id)] - largest - std::log(sum);
}

}  // namespace

std::vector<float> finite_logits(const Transformer& transformer, const at::Tensor& hidden,
                                 std::int64_t position) {
  const at::Tensor logits = checked_logits(transformer, hidden, position);
  const float* data = logits.const_data_ptr<float>();
  return {data, data + logits.numel()};
}

std::vector<double> log_probabilities(const Transformer& transformer, const at::Tensor& hidden,
                                      std::span<const std::int32_t> next_ids, std::int64_t first) {
  const std::int64_t vocab = transformer.config().vocab_size;
  const std::int64_t step = std::max<std::int64_t>(1, kLogitsAtOnce / vocab), n = std::ssize(next_ids);
  std::vector<double> scores;
  for (std::int64_t row = 0; row < n; row += step) {
    const std::int64_t count = std::min(step, n - row);
    const at::Tensor logits = checked_logits(transformer, hidden.narrow(0, row, count), first + row);
    const float* data = logits.const_data_ptr<float>();
    for (std::int64_t i = 0; i < count; ++i)
      scores.push_back(log_probability({data + i * vocab, static_cast<std::size_t>(vocab)},
                                       next_ids[static_cast<std::size_t>(row + i)]));
  }
  return scores;
}

}  // namespace keyscope::capture
