#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "app/benchmarks/sweep.hpp"

namespace keyscope::benchmarks {

// What recording costs: every combination runs with keys, queries and exact statistics written to a file, and
// without, one right after the other, each repetition in the other order. The file is removed after each run,
// whatever happens.
//   folder: where the file is written; the recording's cost depends on its disk
//   throws as measure_prefill does, and FileError where nothing can be written there
Benchmark measure_recording_overhead(const capture::Model& model, const Sweep& sweep,
                                     const std::vector<std::int32_t>& prompt,
                                     const std::filesystem::path& folder, Monitor& monitor);

}  // namespace keyscope::benchmarks
