#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/statistics.hpp"
#include "app/validation/prompt_record.hpp"

namespace keyscope::validation {

// The rules by which claims are judged. They stand in docs/validate.md, and beside every verdict, and were
// there before any result.
enum class Verdict { kSupported, kNotSupported, kCannotTell };

// "supported", "not supported", "cannot tell".
std::string_view verdict_name(Verdict verdict);

// On which side of zero a claim says that a mean lies.
enum class Side { kAbove, kBelow };

// Below this, an interval over prompts is too narrow to be believed: the percentile bootstrap of few samples
// covers less than it says.
inline constexpr std::int64_t kLeastPrompts = 8;

// Supported where the whole interval lies on the claimed side of zero, not supported where none of it does
// (an end that is zero is not on it), else "cannot tell", as with fewer than kLeastPrompts.
Verdict judge(const analysis::BootstrapMean& mean, Side side);

// An inequality: one violation refutes it, and without pairs there is nothing to hold.
Verdict judge_bound(std::int64_t pairs, std::int64_t violations);

// Of a claim with several parts: supported if all are, not supported if one is not, else "cannot tell".
// Nor can it without parts.
Verdict judge_all(std::span<const Verdict> parts);

// The rule of `judge` in words.
std::string rule_text(Side side);
std::string bound_rule_text();

// How strong a rank correlation is, by the bands of Schober, Boer and Schwarte (Anesthesia & Analgesia 126,
// 2018): "negligible", "weak", "moderate", "strong", "very strong"; "unknown" for NaN.
std::string_view strength_name(double correlation);

// That of a whole interval: "weak", or "weak to moderate" where its ends differ; of one that has zero in it
// "at most weak". Empty where there is none.
std::string strength_text(const analysis::BootstrapMean& correlation);

// One mean with what it says of a claim: over all heads, of one layer, or against one other policy.
struct Finding {
  std::string label;  // "all layers", "layer 3", "against sink"
  analysis::BootstrapMean mean;
  Verdict verdict = Verdict::kCannotTell;
  std::optional<BoundTally> tally = {};  // of an inequality: over all prompts and heads
  std::string strength = {};             // of a correlation; else, or of too few prompts, empty
};

// A claim about attention in a model whose heads have learned sinks, judged by the same rule as if queries
// had divided all of their attention among the tokens.
struct WithoutSinks {
  Verdict verdict = Verdict::kCannotTell;
  std::vector<Finding> findings;
  std::string strength = {};  // as a claim's
};

// A claim is of one of two kinds. What is measured of a model may come out either way. What the paper proves
// cannot fail: a violation says nothing of the model, but that Keyscope or the recording is wrong.
enum class ClaimKind { kEmpirical, kTheorem };

// "empirical", "theorem".
std::string_view kind_name(ClaimKind kind);

// A sentence of the paper as something that can be measured, and what came of it.
struct Claim {
  ClaimKind kind = ClaimKind::kEmpirical;
  std::string id;        // stable: "attention-correlation"
  std::string question;  // for people
  std::string source;    // where the paper says so
  std::string quantity;  // what the means are of
  std::string units;     // empty: none
  std::string rule;      // by which it was judged
  Verdict verdict = Verdict::kCannotTell;
  std::string strength = {};      // of its mean, where that is a correlation
  std::string failure = {};       // of a theorem that did not hold: what that means
  bool is_bug = false;            // whether it means that Keyscope or the recording is wrong
  std::string remark = {};        // how often, read otherwise; may be empty
  std::vector<Finding> findings;  // that the verdict rests on
  std::vector<Finding> by_layer;  // the same, layer by layer; the verdict does not rest on these
  std::optional<WithoutSinks> without_sinks = {};  // the verdict does not rest on it
  std::int64_t heads = 0;                          // KV heads of all layers, where the claim is about heads
  std::int64_t heads_agreeing = 0;  // whose mean over the prompts lies on the claimed side of zero
};

// The verdict with the word for its strength beside it: "supported, weak", "not supported: weak, other
// sign", "cannot tell, at most weak"; of a theorem "holds", "never applied", or what its failure means.
std::string verdict_text(const Claim& claim);
std::string verdict_text(const Finding& finding);
std::string verdict_text(const WithoutSinks& without_sinks);

// The empirical claims, in the paper's order: correlation, what position leaves of it, the means' opposition,
// the top key's alignment, log volumes, quality against `sink` and `random`. Claims about runs that are not
// there have no findings.
std::vector<Claim> examine_claims(Records records, const analysis::BootstrapOptions& options);

// Theorem 3.2 and Lemma 3.1: whether they held, and how often their hypotheses applied. The lemma's verdict
// is that of its statement, with M = sup ‖k‖², which its proof does not cover where keys are shorter than 1;
// the proof's reading and the form that needs no assumption stand in the remark, and a failure of these is
// one of the lemma too.
std::vector<Claim> examine_theorems(Records records, const analysis::BootstrapOptions& options);

}  // namespace keyscope::validation
