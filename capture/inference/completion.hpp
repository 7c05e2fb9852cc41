#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/policies/policy.hpp"
#include "capture/inference/capture.hpp"
#include "capture/model/model.hpp"

namespace keyscope::capture {

// How the next token is taken from the logits.
struct Sampling {
  double temperature = 0;  // 0: the likeliest token; else logits are divided by it
  double top_p = 1;  // 0 < top_p <= 1: drawn among the fewest likeliest tokens that hold this probability
  std::uint64_t seed = 0;

  bool operator==(const Sampling&) const = default;
};

// Whether a sampling can be.
//   throws UsageError naming the value and what was expected
void check_sampling(const Sampling& sampling);

// The next token. Draw t takes the t-th number of SplitMix64's stream from the seed, so that it is the same
// whatever was run before; tokens are ranked by probability, equal ones by id, and the one is taken in whose
// share of the cumulated probability the number falls.
//   logits: (vocab), finite; draw: how many tokens of this text were chosen before
//   source: Holtzman et al., The Curious Case of Neural Text Degeneration (arXiv 1904.09751), Section 3.1
std::int32_t choose_token(std::span<const float> logits, const Sampling& sampling, std::int64_t draw);

// Many prompts under many policies at once: completed, scored, and nothing recorded.
// How a text goes on after its prompt, and where it ends: after an end-of-sequence id of the model or one of
// the end ids, after max_new_tokens, or where one of the stop texts has been written.
struct Continuation {
  std::int64_t max_new_tokens = 0;
  Sampling sampling = {};
  std::vector<std::string> stop_texts = {};
  bool ignore_eos = false;
  std::vector<std::int32_t> end_ids = {};
  bool never_empty = false;  // the first token is chosen among those that do not end the text
  // Stop texts count once something else than white space has been written: new lines in front of an answer
  // do not end it.
  bool stop_after_words = false;

  bool operator==(const Continuation&) const = default;
};

// One prompt under one policy.
struct CompletionRequest {
  std::span<const std::int32_t> prompt_ids;  // must outlive the call
  analysis::PolicySpec policy;
  std::int64_t budget = 0;  // N: rows per KV head; not looked at for `none`
  Continuation continuation = {};
  // Where it is given, the prompt is also scored: ln p of each of its ids from this position on (from 1,
  // since nothing comes before the first) given those before it, as the policy's cache lets the model see
  // them.
  std::optional<std::int64_t> score_from = {};
  // Positions of the prompt, ascending, of which it is told when and why they left which cache.
  std::vector<std::int32_t> watched = {};
};

// A watched row that left a KV head's cache.
struct LostRow {
  int layer = 0, kv_head = 0;
  std::int32_t position = 0;
  std::int64_t n_read = 0;   // tokens that had been read by then: the end of the block after which it went
  bool past_window = false;  // no query will see it through the layer's window, whatever the policy
  // Its place among the n_rows that the head held, by what decided: 1 the best, those that were forced to
  // stay before it; 0 where nothing decided.
  std::int64_t rank = 0, n_rows = 0;
  float margin = 0;  // by how much it missed the cut, as a recording's `evicted_margin`

  bool operator==(const LostRow&) const = default;
};

// What a run's caches hold once so many tokens have been read and what had to go has gone.
struct CacheSize {
  std::int64_t n_read = 0;
  double rows = 0;         // per KV head, mean over all layers and heads
  std::int64_t bytes = 0;  // of keys and values, as analysis::packed_bytes counts them

  bool operator==(const CacheSize&) const = default;
};

enum class CompletionEnd { kEndOfSequence, kMaxNewTokens, kStopText };

struct Completion {
  std::vector<std::int32_t> generated;  // with the id that ended it, if one did
  std::string text;                     // without it, and up to the stop text; empty without a tokenizer
  CompletionEnd end = CompletionEnd::kMaxNewTokens;
  std::int64_t n_prompt = 0;
  double rows_kept = 0;  // per KV head once the prompt was read, mean over all layers and heads
  std::vector<double> log_probabilities;  // of the scored ids, in nats
  std::vector<LostRow> lost;              // of the watched rows, by layer, in the order in which they went
  std::vector<CacheSize> sizes;           // after every block, and after every token that was fed back
};

// What is the same for all requests.
struct CompletionSettings {
  std::int64_t block_size = 128;            // B
  std::uint64_t seed = 0;                   // of policies that draw and were given none of their own
  analysis::CacheFormat cache_format = {};  // what the caches hold rows as
};

// Tokens that were asked for: those of every request's prompt, and every id it may generate but the last,
// which is never fed back.
struct CompletionProgress {
  std::int64_t tokens_done = 0;    // of those asked for, shared ones and those that an early end saved too
  std::int64_t tokens_shared = 0;  // of those done, how many another request had run already
  std::int64_t tokens_total = 0;
};

struct CompletionWatch {
  CaptureControl& control;  // pauses, steps and cancels between blocks; its on_progress is not called
  std::function<void(std::size_t request, Completion completion)> on_done;        // in the order they end
  std::function<void(const CompletionProgress& progress)> on_progress = nullptr;  // after every block
};

struct CompletionCost {
  std::int64_t tokens_asked = 0;  // as in CompletionProgress, but only ids that were really fed back
  std::int64_t tokens_run = 0;    // of them through the model; the rest was shared
  double seconds = 0;
};

// Reads every prompt block by block, evicts as its policy says and goes on token by token: what `run_capture`
// gives for each request by itself. A prompt's blocks are [0, B), [B, 2B), …, so a run's state at a block
// boundary depends on the ids before it, and on the policy and the budget only once more rows than the budget
// have been there. Work is therefore done once for all requests that agree so far: the prompts form a tree of
// blocks, of which all policies share a branch until it has more rows than their budgets. They share the
// block that makes it so too, since rows are evicted after a block has passed through a layer: it is run
// once, with all that any of their policies looks at of its attention, and then each evicts from a copy. All
// requests of one policy and budget share the branch further while their ids are the same.
//
// The tree is walked depth first. Where it parts, the state is copied for every branch but the last, so that
// as many states are alive as there are partings above the block at hand, and up to three more whose prompts
// are over, which wait to generate in one pass over the weights; each holds the rows of one run's cache.
// Whether all that are alive at once fit into memory is looked at before anything runs.
//   throws UsageError on a policy, budget, sampling or block size that cannot be, and on stop texts where
//   there is no tokenizer; InvalidInput naming the request where a prompt is empty, has ids outside the
//   vocabulary or does not fit into the model's context with what is to be generated, all before anything
//   runs; Error where the caches that are alive at once do not fit into memory, saying what would need less;
//   Cancelled after `cancel`, within one block
CompletionCost complete_prompts(const Model& model, const CompletionSettings& settings,
                                std::span<const CompletionRequest> requests, const CompletionWatch& watch);

}  // namespace keyscope::capture
