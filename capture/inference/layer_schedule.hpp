#pragma once

#include <memory>
#include <vector>

#include "capture/inference/policy_run.hpp"

namespace keyscope::capture {

// Takes the prompt through the model layer by layer: every layer's weights are read once for all blocks of
// all runs. Eviction in a layer depends on that layer alone, so the result is that of the block schedule.
void run_prompts_by_layers(const CaptureContext& context,
                           const std::vector<std::unique_ptr<PolicyRun>>& runs);

// Tokens that go through a layer's matrix products at once: a whole number of blocks.
std::int64_t chunk_tokens(std::int64_t block_size);

}  // namespace keyscope::capture
