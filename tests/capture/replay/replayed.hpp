#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "capture/inference/capture.hpp"
#include "capture/replay/replay.hpp"
#include "tests/capture/model/random_model.hpp"
#include "tests/scratch_folder.hpp"

namespace keyscope::test {

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
