#pragma once

#include <string>

#include "app/benchmarks/benchmark.hpp"

namespace keyscope::commands {

// The rows as text, one line each, with the columns that any of them has: medians, and the extremes of what
// the benchmark is about.
std::string bench_table(const benchmarks::Benchmark& benchmark);

// What it was measured on: model, dtype, threads, kernels, repetitions, the products' rate and the load.
std::string bench_setting(const benchmarks::Benchmark& benchmark);

}  // namespace keyscope::commands
