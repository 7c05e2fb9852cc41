#pragma once

#include <optional>

#include "app/benchmarks/benchmark.hpp"
#include "app/commands/bench.hpp"
#include "capture/model/config.hpp"

namespace keyscope::commands {

// Prints the table, unless JSON goes to stdout, and writes JSON and figure where they were asked for.
//   config: of the model that ran; empty where none was needed
//   throws FileError where they cannot be written
void write_benchmark(const benchmarks::Benchmark& benchmark,
                     const std::optional<capture::ModelConfig>& config, const BenchOutputs& outputs);

}  // namespace keyscope::commands
