#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "app/benchmarks/sweep.hpp"

namespace keyscope::benchmarks {

// Resident memory at its largest, model included, of every combination, with the rows and bytes that its
// caches really took. Each runs in a process of its own, which loads the model anew: memory that an earlier
// run has freed but not given back cannot be counted for a later one, and none need be asked to forget its
// high-water mark. Call it before anything starts threads: a model, say.
//   prompt: at least as long as the longest combination
//   throws Cancelled soon after `monitor.control.cancel`; what the runs throw; Error where a process dies
Benchmark measure_peak_memory(const std::filesystem::path& model_folder,
                              const capture::ModelOptions& model_options, const Sweep& sweep,
                              const std::vector<std::int32_t>& prompt, Monitor& monitor);

}  // namespace keyscope::benchmarks
