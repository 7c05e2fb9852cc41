#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "app/validation/settings.hpp"
#include "capture/model/model.hpp"

namespace keyscope::validation {

// Before anything runs: a prompt is captured into memory, rows of all runs of it at a time, beside the
// caches.
//   file: for the message
//   available: bytes of memory
//   throws FileError naming the line of the longest prompt, both figures, and the --max-tokens that would fit
void check_memory(const capture::Model& model, const Settings& settings, std::span<const Prompt> prompts,
                  const std::string& file, std::int64_t available);

}  // namespace keyscope::validation
