#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/policies/policy.hpp"
#include "analysis/row_quantisation.hpp"
#include "capture/model/model.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::capture {

// How far a capture is; sent after every block.
struct CaptureProgress {
  std::string run;
  int run_index = 0;
  int n_runs = 0;
  std::int64_t block = 0;        // done in this run
  std::int64_t n_blocks = 0;     // planned in this run
  std::int64_t tokens_done = 0;  // over all runs
  std::int64_t tokens_total = 0;
  double elapsed_seconds = 0;
};

// The other end of a running capture: pause, resume, single steps, cancel. Safe from any thread; `cancel` may
// be called from a signal handler's thread, not from the handler itself.
class CaptureControl {
 public:
  void pause();
  void resume();
  void step();  // while paused: let one turn pass, a block or one of every run that go together
  void cancel();
  bool paused() const;
  bool cancelled() const;
  // Pauses by itself once the token at this position has been read; empty: nowhere.
  void pause_after(std::optional<std::int64_t> position);
  void set_rate(double per_second);  // turns, at most; 0: as fast as it goes

  // Called by the inference thread before every turn: waits while paused, and as long as the rate asks for.
  //   first: the position of its first token, of none where blocks do not follow one another
  //   throws Cancelled after `cancel`
  void wait_for_turn(std::optional<std::int64_t> first = {});
  void check_cancelled() const;  // throws Cancelled after `cancel`
  bool holds_up() const;         // whether wait_for_turn may wait now

  // Called on the inference thread; may be empty.
  std::function<void(const CaptureProgress&)> on_progress;
  std::function<void()> on_pause;  // after it paused by itself

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool paused_ = false;
  bool cancelled_ = false;
  int steps_ = 0;
  std::optional<std::int64_t> pause_after_;
  std::chrono::duration<double> interval_{0};
  std::chrono::steady_clock::time_point turn_{};  // when the last one began
};

// In which order runs, blocks and layers are taken. The result is the same.
enum class Schedule {
  kBlock,     // block by block through all layers, as a device does
  kLayer,     // the prompt layer by layer with all blocks of all runs: every layer's weights are read once
  kTogether,  // a block of every run, then the next of every run: all caches are in memory at once
};

// What to run and what to record of it. One run per policy and cache format, in order, over the same prompt
// ids.
struct CaptureOptions {
  std::vector<std::int32_t> prompt_ids;
  std::vector<analysis::PolicySpec> policies;
  analysis::Budget
      budget;  // N: rows per KV head, or a share of the prompt; needed by every policy but `none`
  // (n_layers, n_kv_heads) budgets, row after row, where they are not the same everywhere; else empty.
  std::vector<std::int64_t> budgets;
  std::int64_t block_size = 128;  // B
  Schedule schedule = Schedule::kBlock;
  bool oracle = false;           // evict once, after attention over the whole prompt
  bool cache_positions = false;  // rotate rows by their place in the cache, not by their true position
  // What caches hold rows as while the model runs: all policies under the first, then under the next.
  std::vector<analysis::CacheFormat> cache_formats = {analysis::CacheFormat{}};
  std::int64_t generate = 0;
  bool ignore_eos = false;
  std::vector<int> layers;  // empty: all
  // KV heads whose keys and values are recorded, with the queries and attention weights of their groups;
  // empty: all. Statistics are recorded of all heads.
  std::vector<int> heads;
  bool record_keys = true;
  bool record_queries = true;
  bool record_values = false;
  bool record_value_norms = false;  // what `critical` weighs: for replays under it
  bool record_attention = false;
  bool record_logits = false;
  std::int64_t score_last = 32;
  recording::StoreType store = recording::StoreType::kFloat32;
  bool compress = false;
  std::uint64_t seed = 0;
  std::string answer;  // the right one, where it is known: kept in the configuration
  // Tokens [first, end) of the prompt that it stands on: likewise.
  std::vector<std::array<std::int64_t, 2>> evidence;
  std::string command;       // for the provenance
  std::string model_sha256;  // likewise; empty: that of configuration and headers
};

// Checks what can be checked without the model.
//   throws UsageError on options that cannot be: no budget, say
void check_options(const CaptureOptions& options);

// Whether ids are a prompt for the model.
//   where: what messages begin with
//   throws InvalidInput where there are none, or one is outside the vocabulary
void check_prompt_ids(const ModelConfig& config, std::span<const std::int32_t> ids,
                      const std::string& where = "");

// The plan that `run_capture` will hand to its sinks, for estimates and `--dry-run`.
//   throws UsageError on options that cannot be (an unknown policy, no budget, a layer that is not there)
//   throws InvalidInput on an empty prompt, ids outside the vocabulary, or more than the model's context
recording::RecordPlan plan_capture(const Model& model, const CaptureOptions& options);

// How much a capture will cost.
struct CaptureEstimate {
  std::int64_t disk_bytes = 0;
  std::int64_t cache_bytes = 0;  // KV caches at their largest: of one run, or of all that go together
  std::int64_t weight_bytes = 0;
  double seconds = 0;  // from the machine's measured rate of a small matrix product
};
CaptureEstimate estimate_capture(const Model& model, const recording::RecordPlan& plan);

// What a run left behind, for the caller that does not want to read the recording again.
struct RunOutcome {
  std::string name;
  std::vector<std::int32_t> generated;
  std::int64_t peak_cache_rows = 0;   // largest row count any KV head's cache held, measured
  std::int64_t peak_cache_bytes = 0;  // bytes allocated for caches at their largest, measured
  // Bytes of the keys and values in the cache once the prompt was read, over all layers: as they are held, in
  // the model's dtype, and as a cache of the run's format holds them packed.
  std::int64_t held_bytes = 0, packed_bytes = 0;
  // Seconds from the beginning of the run's first block to the first logits, and what of them attention (with
  // its statistics) and eviction (scores, selection, compaction) took; seconds of the tokens fed back.
  double prompt_seconds = 0;
  double attention_seconds = 0;
  double eviction_seconds = 0;
  double generation_seconds = 0;
};

// Runs every policy by block inference and hands each block to all sinks. Ends with `end(false)` and throws
// Cancelled when `control` says so, within one block; on any other error the sinks get `end(false)` as well.
// Without sinks nothing is recorded, and no statistics are taken.
std::vector<RunOutcome> run_capture(const Model& model, const CaptureOptions& options,
                                    std::span<recording::RecordSink* const> sinks, CaptureControl& control);

}  // namespace keyscope::capture
