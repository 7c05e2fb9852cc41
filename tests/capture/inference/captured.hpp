#pragma once

#include <memory>
#include <string>
#include <vector>

#include "capture/inference/capture.hpp"
#include "capture/recording/memory_recording.hpp"

namespace keyscope::test {

// A capture that has ended, in memory.
struct Captured {
  std::shared_ptr<recording::MemoryRecording> recording;
  std::vector<capture::RunOutcome> outcomes;
};

Captured run_in_memory(const capture::Model& model, const capture::CaptureOptions& options);

// `n` ids from 4 on, below `vocab_size`; the same for the same seed.
std::vector<std::int32_t> random_ids(std::int64_t n, std::int64_t vocab_size, unsigned seed = 1);

// Every policy by its text, such as "keydiff:recent=0.1".
std::vector<analysis::PolicySpec> policies(const std::vector<std::string>& texts);

}  // namespace keyscope::test
