#pragma once

#include <cstdint>
#include <vector>

#include "app/benchmarks/sweep.hpp"

namespace keyscope::benchmarks {

// Time to the first token and tokens a second of every combination (KeyDiff, arXiv 2504.15364, Figs. 7 and
// 17), with what of it attention and eviction took. After a warm-up, every repetition runs all combinations
// once, so that whatever else the machine does meets them alike.
//   prompt: at least as long as the longest combination
//   throws Cancelled within one block of `monitor.control.cancel`; UsageError and InvalidInput as a capture
//   does
Benchmark measure_prefill(const capture::Model& model, const Sweep& sweep,
                          const std::vector<std::int32_t>& prompt, Monitor& monitor);

}  // namespace keyscope::benchmarks
