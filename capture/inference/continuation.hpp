#pragma once

#include <cstdint>
#include <functional>

#include "capture/inference/completion.hpp"
#include "capture/inference/run_state.hpp"

namespace keyscope::capture {

// Goes on from a prompt that was read, one token a block; what it generates is added to the completion.
//   state: after the prompt; it is used up
//   last_prompt_id: what the first generated token's text comes after
//   run_token: calls the state for one token; may throw
void continue_text(const Model& model, const Continuation& continuation, std::int32_t last_prompt_id,
                   RunState& state, const std::function<void(std::int32_t id)>& run_token,
                   Completion& completion);

}  // namespace keyscope::capture
