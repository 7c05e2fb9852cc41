#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/benchmarks/benchmark.hpp"

namespace keyscope::benchmarks {

struct ScoringOptions {
  std::vector<std::string> policies;  // as on the command line; `none` scores nothing and is refused
  std::vector<std::int64_t> n_keys;   // of one KV head, before eviction
  std::int64_t head_dim = 128;        // d
  std::int64_t block = 128;           // B: so many rows are evicted of them
  std::int64_t group_size = 4;        // G: query heads that share the KV head
  std::int64_t repeat = 9;
  std::uint64_t seed = 0;
};

// What scoring one KV head's cache costs, and selecting the rows to keep, in processor time of one thread
// (KeyDiff, arXiv 2504.15364, Table 19), on normal keys and values. Policies that read attention are given
// made-up statistics; what taking these adds to the attention of a block is measured beside it. Times are
// also given in units of the baseline's at the fewest keys: keydiff, or the first policy where keydiff is not
// there.
//   throws UsageError on a policy that cannot be understood or scores nothing, and where no more keys are
//   there than a block has; Cancelled soon after `monitor.control.cancel`
Benchmark measure_scoring(const ScoringOptions& options, Monitor& monitor);

// Floating-point operations of KeyDiff's scoring, as its paper counts them (A.1).
double keydiff_flops(std::int64_t n_keys, std::int64_t head_dim);

}  // namespace keyscope::benchmarks
