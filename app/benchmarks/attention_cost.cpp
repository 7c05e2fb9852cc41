#include "app/benchmarks/attention_cost.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>

#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>

#include "capture/inference/attention.hpp"
#include "capture/inference/eviction.hpp"

namespace keyscope::benchmarks {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

AttentionCost::AttentionCost(const RowMatrixF& keys, const RowMatrixF& values,
                             std::span<const std::int32_t> positions, std::int64_t group_size,
                             std::int64_t block)
    : keys_(keys), values_(values), positions_(positions) {
  const c10::InferenceMode inference;
  queries_ = at::randn({group_size, block, keys.cols()});
}

double AttentionCost::measure_seconds(const analysis::PolicyNeeds& needs) const {
  if (!needs.attention()) return 0;
  const c10::InferenceMode inference;
  at::set_num_threads(1);
  capture::AttentionInput input{queries_, {{keys_.data(), values_.data(), positions_}}, {}};
  input.rules.scale = 1 / std::sqrt(static_cast<double>(keys_.cols()));
  const auto measure = [&](const capture::AttentionWants& wants) {
    const double started = thread_seconds();
    capture::attend(input, wants);
    return thread_seconds() - started;
  };
  // Several of each, in turn: the least is free of most of what caches and clocks do.
  constexpr int kRounds = 4;
  const capture::AttentionWants wants = capture::attention_wants(needs);
  double with = measure(wants), without = measure({});
  for (int i = 1; i < kRounds; ++i)
    with = std::min(with, measure(wants)), without = std::min(without, measure({}));
  return std::max(0.0, with - without);
}

}  // namespace keyscope::benchmarks
