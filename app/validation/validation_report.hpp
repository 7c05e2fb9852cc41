#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "app/figures/figure.hpp"
#include "app/results/html_page.hpp"
#include "app/validation/claims.hpp"
#include "app/validation/prompt_record.hpp"
#include "app/validation/validation.hpp"
#include "capture/model/model.hpp"
#include "capture/recording/records.hpp"

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
  std::vector<int> layers;              // that have keys
  std::vector<int> keyless_layers;      // of which there is nothing to measure
  std::int64_t n_kv_heads = 0;          // in a layer, at most
  std::int64_t n_heads = 0;             // in all layers with keys
  std::int64_t n_tokens = 0;            // of all prompts
  std::vector<Claim> claims;            // what is measured and may come out either way
  std::vector<Claim> theorems;  // what is proved: they check Keyscope and the recording, not the model
  std::vector<SummaryRow> summary;
};

//   prompts, records: of the same number and order, at least one
//   keyless_layers: those of the model that have no keys
Report make_report(const Settings& settings, std::span<const results::Prompt> prompts, Records records,
                   std::vector<int> keyless_layers = {});

// What was found, in one sentence: whether unlike keys receive more attention, how many of the claims are
// supported, and whether what is proved held; where it did not, that comes first.
std::string headline(const Report& report);

// "demo_model, weights 0123456789ab, bfloat16 on cpu": the weights by the beginning of their hash, which
// tells models of one architecture apart.
std::string describe_model(const Report& report);

// "24 prompts of 96 to 480 tokens, 4 layers × 4 KV heads, 12 layers without keys".
std::string describe_extent(const Report& report);

// "learned sinks take 34.1 [33.0, 35.2] % of the full cache's attention"; empty where heads have none.
std::string describe_sinks(const Report& report);

// "N = 0.25 of the prompt, B = 64".
std::string describe_eviction(const Report& report);

// The text of validation.json: headline, settings, prompts, claims and theorems with rules and verdicts, and
// every mean. It names no time and no path, so that the same prompts and settings give the same bytes,
// however often it was begun. Values that do not exist are null.
std::string report_json(const Report& report);

// The pictures of a validation, means with their intervals over prompts: "correlation-by-layer",
// "cosines-by-layer" (both of the full cache) and "policies" (log volume, attention kept, output error, KL).
std::vector<figures::Figure> report_figures(const Report& report);

// Writes validation.json, validation.html, validation.h5 and figures/*.svg, each as a whole.
//   model, prompts: for the figure file, which says where its figures come from: of all prompts, in order
//   provenance: likewise; settings, model and prompts are added to it
//   throws FileError where one cannot be written
void write_report(const Report& report, const capture::Model& model, std::span<const results::Prompt> prompts,
                  recording::Provenance provenance, const ResultFolder& folder);

// The text of validation.html: one page that opens offline and refers to nothing outside it. The headline
// first, then verdicts, each with its rule, of claims and of theorems; then pictures, the findings by layer,
// the policies, and the prompts.
std::string report_page(const Report& report, std::span<const results::PagePicture> pictures);

}  // namespace keyscope::validation
