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

// The other end of a running validation.
struct ValidationWatch {
  capture::CaptureControl& control;    // both end it, a capture the one
  const std::atomic<bool>& cancelled;  // and a measurement the other
  // Called after every block: tokens of all runs of the prompts that were still to be measured.
  std::function<void(std::int64_t done, std::int64_t total, const std::string& label)> on_progress;
};

// Measures every prompt whose result is not in the folder, one after another, and saves each as it is done.
// Returns the records in the prompts' order, as they read back from the folder: whether it was interrupted
// makes no difference.
//   throws Cancelled where it was ended, saying how many prompts are done
std::vector<PromptRecord> measure_prompts(const capture::Model& model, const Settings& settings,
                                          std::span<const Prompt> prompts, const ResultFolder& folder,
                                          bool keep_recordings, const ValidationWatch& watch);

}  // namespace keyscope::validation
