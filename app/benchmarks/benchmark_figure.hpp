#pragma once

#include "app/benchmarks/benchmark.hpp"
#include "app/figures/figure.hpp"

namespace keyscope::benchmarks {

// A benchmark as lines, one per policy: time to the first token, relative cost of eviction, overhead of
// recording or peak memory, over whichever of budget, block and number of tokens was varied most; what else
// was varied has a panel for each of its values. Medians are drawn. `none`, which has no budget, is level
// over all of them.
figures::Figure benchmark_figure(const Benchmark& benchmark);

}  // namespace keyscope::benchmarks
