#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/statistics.hpp"
#include "app/validation/summary.hpp"
#include "app/validation/verdict.hpp"

namespace keyscope::validation {

// One mean with what it says of a claim: over all heads, of one layer, or against one other policy.
struct Finding {
  std::string label;  // "all layers", "layer 3", "against sink"
  analysis::BootstrapMean mean;
  Verdict verdict = Verdict::kCannotTell;
  std::optional<BoundTally> tally = {};  // of an inequality: over all prompts and heads
};

// A sentence of the paper as something that can be measured, and what came of it.
struct Claim {
  std::string id;        // stable: "attention-correlation"
  std::string question;  // for people
  std::string source;    // where the paper says so
  std::string quantity;  // what the means are of
  std::string units;     // empty: none
  std::string rule;      // by which it was judged
  Verdict verdict = Verdict::kCannotTell;
  std::string remark = {};          // how strong, how often; may be empty
  std::vector<Finding> findings;    // that the verdict rests on
  std::vector<Finding> by_layer;    // the same, layer by layer; the verdict does not rest on these
  std::int64_t heads = 0;           // KV heads of all layers, where the claim is about heads
  std::int64_t heads_agreeing = 0;  // whose mean over the prompts lies on the claimed side of zero
};

// All claims, in the paper's order: correlation, what position leaves of it, the means' opposition, the top
// key's alignment, log volumes, Theorem 3.2, Lemma 3.1, quality against `sink` and `random`. Claims about
// runs that are not there have no findings.
std::vector<Claim> examine_claims(Records records, const analysis::BootstrapOptions& options);

}  // namespace keyscope::validation
