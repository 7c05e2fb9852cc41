#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "app/validation/settings.hpp"
#include "capture/model/model.hpp"

namespace keyscope::validation {

// How a message speaks of prompts.
struct PromptWords {
  std::function<std::string(const Prompt&)> where;  // one stands: "prompts.jsonl, line 3"
  std::string shorter;                              // the option that bounds their tokens: "--max-tokens"
};

// Before anything runs: a prompt is captured into memory, rows of all runs of it at a time, beside the
// caches.
//   available: bytes of memory
//   throws FileError naming the longest prompt, both figures, and the bound of tokens that would fit
void check_memory(const capture::Model& model, const Settings& settings, std::span<const Prompt> prompts,
                  const PromptWords& words, std::int64_t available);

}  // namespace keyscope::validation
