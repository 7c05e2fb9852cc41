#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "app/validation/prompt_record.hpp"
#include "app/validation/result_folder.hpp"
#include "app/validation/settings.hpp"
#include "capture/inference/capture.hpp"
#include "capture/model/model.hpp"

namespace keyscope::validation {

// How far a validation is: tokens of all runs of the prompts that were still to be measured.
using ValidationProgress =
    std::function<void(std::int64_t done, std::int64_t total, const std::string& label)>;

// The settings that a model adds to those asked for.
Settings with_model(Settings settings, const capture::Model& model);

// Measures every prompt whose result is not in the folder, one after another, and saves each as it is done.
//   control, cancelled: both end it; throws Cancelled then, saying how many prompts are done
// Returns the records in the prompts' order, as they read back from the folder: whether it was interrupted
// makes no difference.
std::vector<PromptRecord> measure_prompts(const capture::Model& model, const Settings& settings,
                                          std::span<const Prompt> prompts, const ResultFolder& folder,
                                          bool keep_recordings, capture::CaptureControl& control,
                                          const std::atomic<bool>& cancelled,
                                          const ValidationProgress& progress);

}  // namespace keyscope::validation
