#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "capture/inference/capture.hpp"
#include "capture/recording/recording.hpp"
#include "capture/replay/replay.hpp"
#include "tests/support/random_model.hpp"
#include "tests/support/scratch_folder.hpp"

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

// All policies of the registry that need no file, and options that read more than the plain ones do.
std::vector<analysis::PolicySpec> every_policy();

// A tiny model of random weights: 2 layers, 4 query and 2 KV heads of 8, 50 ids.
const capture::Model& tiny_model();

// A capture of `none` over 50 random ids in blocks of 16, with keys, queries and values.
capture::CaptureOptions full_cache_options();

// Captures into a file.
std::string capture_to(const std::filesystem::path& out, const capture::CaptureOptions& options,
                       const capture::Model& model = tiny_model());

// Policies by their texts, over budget 12 in blocks of 16.
replay::ReplayOptions replay_options(const std::vector<std::string>& texts);

// Replays a file into another and opens that.
std::shared_ptr<recording::Recording> replay_to(const std::filesystem::path& out, const std::string& source,
                                                const replay::ReplayOptions& options);

}  // namespace keyscope::test
