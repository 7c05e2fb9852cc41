#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "analysis/policies/policy.hpp"
#include "app/results/prompts.hpp"
#include "app/results/run_identity.hpp"
#include "app/validation/prompt_record.hpp"
#include "capture/inference/capture.hpp"
#include "capture/model/model.hpp"

namespace keyscope::validation {

// All that the numbers of a validation depend on, but for the prompts.
struct Settings {
  results::ModelIdentity model;
  std::vector<analysis::PolicySpec> policies;  // `none` first, then one `keydiff`, then the others
  analysis::Budget budget = analysis::Budget::of_share(0.25);
  std::int64_t block_size = 128;
  std::optional<std::int64_t> max_tokens;
  std::int64_t score_last = 32;  // prompt positions whose logits and attention outputs are compared
  std::uint64_t seed = 0;        // of policies that draw, and of the bootstrap
};

// What `validate` runs by default: the paper's, and the floor.
std::vector<analysis::PolicySpec> default_policies();

// `none` and `keydiff`, then the others as they were asked for; empty: the default ones.
//   throws UsageError where a policy is given twice, since it would be compared with itself
std::vector<analysis::PolicySpec> complete_policies(std::vector<analysis::PolicySpec> asked);

// Every setting with its value; options of policies in full.
nlohmann::ordered_json settings_json(const Settings& settings);

// A prompt's record that was made elsewhere, as JSON; empty: there is none.
using FindRecord =
    std::function<std::optional<std::string>(const Settings& settings, const results::Prompt& prompt)>;

// Takes over records that were made elsewhere and are not in the folder.
//   folder: after `begin`
//   throws FileError where one is damaged, or cannot be written
void adopt_records(const Settings& settings, std::span<const results::Prompt> prompts, const FindRecord& find,
                   const ResultFolder& folder);

// What one prompt's numbers depend on: SHA-256 of the settings and the ids, in hex.
std::string prompt_key(const nlohmann::ordered_json& settings, std::span<const std::int32_t> ids);

// Before anything runs: every prompt must be longer than its budget, and than one block, or nothing would be
// evicted while it is read.
//   file: for the message
//   throws FileError naming file and line
void check_lengths(const Settings& settings, std::span<const results::Prompt> prompts,
                   const std::string& file);

// The other end of a running validation.
struct ValidationWatch {
  capture::CaptureControl& control;    // both end it, a capture the one
  const std::atomic<bool>& cancelled;  // and a measurement the other
  // Called after every block: tokens of all runs of the prompts that were still to be measured.
  std::function<void(std::int64_t done, std::int64_t total, const std::string& label)> on_progress;
};

// How one prompt is captured: every policy, with all rows and the last logits.
capture::CaptureOptions prompt_capture_options(const capture::Model& model, const Settings& settings,
                                               const results::Prompt& prompt);

// Captures one prompt under every policy into memory and measures it, head by head as `analyze` does.
//   recording: also written there, as `capture` would; empty: not kept
//   control, cancelled: a cancelled capture and a cancelled measurement both throw Cancelled
PromptRecord measure_prompt(const capture::Model& model, const Settings& settings,
                            const results::Prompt& prompt, const std::filesystem::path& recording,
                            capture::CaptureControl& control, const std::atomic<bool>& cancelled);

// Tokens that pass through the model for one prompt.
std::int64_t tokens_of(const Settings& settings, const results::Prompt& prompt);

// Measures every prompt whose result is not in the folder, one after another, and saves each as it is done.
// Returns the records in the prompts' order, as they read back from the folder: whether it was interrupted
// makes no difference.
//   throws Cancelled where it was ended, saying how many prompts are done
std::vector<PromptRecord> measure_prompts(const capture::Model& model, const Settings& settings,
                                          std::span<const results::Prompt> prompts,
                                          const ResultFolder& folder, bool keep_recordings,
                                          const ValidationWatch& watch);

// How a message speaks of prompts.
struct PromptWords {
  std::function<std::string(const results::Prompt&)> where;  // one stands: "prompts.jsonl, line 3"
  std::string shorter;  // the option that bounds their tokens: "--max-tokens"
};

// Before anything runs: a prompt is captured into memory, rows of all runs of it at a time, beside the
// caches.
//   available: bytes of memory
//   throws FileError naming the longest prompt, both figures, and the bound of tokens that would fit
void check_memory(const capture::Model& model, const Settings& settings,
                  std::span<const results::Prompt> prompts, const PromptWords& words, std::int64_t available);

}  // namespace keyscope::validation
