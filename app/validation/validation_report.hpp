#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "app/validation/claims.hpp"
#include "app/validation/settings.hpp"
#include "app/validation/summary.hpp"

namespace keyscope::validation {

// A prompt as a report names it.
struct ReportedPrompt {
  std::string name;
  std::string beginning;  // the first words
  std::string key;
  std::int64_t n_tokens = 0;
  std::int64_t budget = 0;
};

// All that a validation found: what the JSON, the page, the figures and the table are made from.
struct Report {
  Settings settings;
  analysis::BootstrapOptions bootstrap;
  std::vector<ReportedPrompt> prompts;  // in the order of their file
  std::vector<std::string> runs;        // `none` first
  std::vector<int> layers;
  std::int64_t n_kv_heads = 0;  // in a layer
  std::int64_t n_tokens = 0;    // of all prompts
  std::vector<Claim> claims;
  std::vector<SummaryRow> summary;
};

//   prompts, records: of the same number and order, at least one
Report make_report(const Settings& settings, std::span<const Prompt> prompts, Records records);

// "24 prompts of 96 to 480 tokens, 4 layers x 4 KV heads".
std::string describe_extent(const Report& report);

// "N = 0.25 of the prompt, B = 64".
std::string describe_eviction(const Report& report);

}  // namespace keyscope::validation
