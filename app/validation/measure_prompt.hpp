#pragma once

#include <atomic>
#include <filesystem>

#include "app/validation/prompt_record.hpp"
#include "app/validation/settings.hpp"
#include "capture/inference/capture.hpp"
#include "capture/model/model.hpp"

namespace keyscope::validation {

// How one prompt is captured: every policy, with all rows and the last logits.
capture::CaptureOptions prompt_capture_options(const Settings& settings, const Prompt& prompt);

// Captures one prompt under every policy into memory and measures it, head by head as `analyze` does.
//   recording: also written there, as `capture` would; empty: not kept
//   control, cancelled: a cancelled capture and a cancelled measurement both throw Cancelled
PromptRecord measure_prompt(const capture::Model& model, const Settings& settings, const Prompt& prompt,
                            const std::filesystem::path& recording, capture::CaptureControl& control,
                            const std::atomic<bool>& cancelled);

}  // namespace keyscope::validation
