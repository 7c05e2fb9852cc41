#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "analysis/policies/policy.hpp"
#include "app/benchmarks/paired_ratio.hpp"
#include "app/figures/figure.hpp"
#include "capture/inference/capture.hpp"
#include "capture/model/model.hpp"

namespace keyscope::benchmarks {

// The results of repeated measurements of one quantity. Other work on the machine only ever adds time, so the
// least stands beside the median.
struct Spread {
  double median = 0, least = 0, most = 0;
};

// The median of an even number of values is the mean of the two in the middle; empty for no values.
std::optional<Spread> spread_of(std::vector<double> values);

// What a benchmark hands out: one row per combination that was run, and the setting of them all.
// One combination and its measurements; what a benchmark does not measure stays empty. Shares are of the time
// to the first token.
struct Row {
  std::string policy;                  // as it was asked for: `keydiff:recent=0.1`
  std::optional<std::int64_t> budget;  // N; empty for `none`
  std::optional<std::int64_t> block;   // B
  std::optional<std::string> schedule;
  std::int64_t n_tokens = 0;  // of the prompt; keys where only scoring is measured

  std::optional<Spread> ttft_ms, tokens_per_second;
  RoundTimes ttft_rounds;               // milliseconds, what ttft_ms is of
  std::optional<Spread> ttft_relative;  // ttft_ms over that of `none`, of the same block, schedule and tokens
  std::optional<Spread> attention_share, eviction_share;
  std::optional<Spread> products_share;  // what the layers' matrix products alone would have taken
  std::optional<Spread> generated_per_second;

  std::optional<Spread> plain_ms, recorded_ms;  // the whole run without and with recording
  std::optional<Spread> overhead;               // recorded over plain, less one, repetition by repetition
  std::optional<std::int64_t> file_bytes;

  std::optional<Spread> score_us, select_us;
  std::optional<Spread>
      statistics_us;  // what the attention statistics that the policy reads add to attention
  // In units of the baseline's at the fewest keys: score_us, and the sum of all three.
  std::optional<Spread> relative, all_relative;
  // The same ratios of times, paired: what may be said of them.
  std::optional<PairedRatio> ttft_ratio, attention_ratio, eviction_ratio, products_ratio, recording_ratio,
      score_ratio, all_ratio;
  std::optional<double> paper_relative;         // KeyDiff (arXiv 2504.15364), Table 19
  std::optional<double> flops, flops_relative;  // by its flop model (A.1), for keydiff

  std::optional<Spread> peak_bytes;  // resident at its largest, weights included
  std::optional<std::int64_t> peak_cache_rows, peak_cache_bytes;
};

// What ran, on what.
struct Setting {
  std::string model;  // empty where none was needed
  std::string dtype, device, kernels;
  int threads = 1;
  std::int64_t weight_bytes = 0;
};

Setting setting_of(const capture::Model& model);

struct Benchmark {
  std::string name;  // "prefill", "score", "capture", "memory"
  Setting setting = {};
  std::int64_t repeat = 0;
  std::uint64_t seed = 0;
  // What products of the model's shape alone reach in the same minutes, 10⁹ operations a second.
  std::optional<Spread> product_gflops = {};
  std::optional<double> load_before = {}, load_after = {};  // the machine's average over the last minute
  MachineLoad load = {};                                    // over the rounds
  std::vector<Row> rows = {};
};

// {"format": 1, "benchmark": …, "rows": […]}: a median under its quantity's name, its extremes as `_min`,
// `_max`; of a ratio of times also its interval, `_low` and `_high`, whether it can be told, `_told`, and why
// not, `_doubt`.
nlohmann::ordered_json benchmark_json(const Benchmark& benchmark);

// A ratio of times that rows may have, as it is called in JSON and printed.
struct RatioColumn {
  const char* name;   // "overhead"
  const char* title;  // "overhead %"
  std::optional<PairedRatio> Row::*ratio;
  double from;  // what is taken off it: 1 of an overhead
  std::string (*text)(const PairedRatio&);
};
std::span<const RatioColumn> ratio_columns();

// Watches a benchmark, and may end it.
struct Monitor {
  capture::CaptureControl control;  // `cancel` ends it: within one block, or one policy's scoring
  // How far it is, of how much, and what is being run; may be empty.
  std::function<void(std::int64_t done, std::int64_t total, const std::string& label)> on_progress;

  void report(std::int64_t done, std::int64_t total, const std::string& label) const {
    if (on_progress) on_progress(done, total, label);
  }
};

// The combinations that a benchmark goes through, and the prompts that it reads.
// What is varied; every combination is run, but `none`, which has no budget, once for all budgets.
struct Sweep {
  std::vector<std::string> policies;  // as on the command line
  std::vector<analysis::Budget> budgets;
  std::vector<std::int64_t> blocks, n_tokens;
  std::vector<capture::Schedule> schedules;
  std::int64_t generate = 0;
  std::int64_t repeat = 1;
  std::uint64_t seed = 0;
};

struct Case {
  std::string policy;
  analysis::PolicySpec spec;
  std::int64_t budget = 0;  // 0 for `none`
  std::int64_t block = 0;
  capture::Schedule schedule = capture::Schedule::kBlock;
  std::int64_t n_tokens = 0;

  std::string label() const;  // "keydiff N=1024 B=128"
};

//   throws UsageError on a policy that cannot be understood
std::vector<Case> cases_of(const Sweep& sweep);

// A row that says what was run, and no more.
Row row_of(const Case& benchmark_case);

// The case as a capture of the prompt's first tokens that records nothing unless it is given sinks.
//   throws UsageError where the prompt is shorter than the case wants
capture::CaptureOptions capture_options(const Case& benchmark_case, const std::vector<std::int32_t>& prompt,
                                        const Sweep& sweep);

// Ids drawn uniformly from the vocabulary: the same for the same seed, and of a shorter prompt the first
// ones.
std::vector<std::int32_t> random_prompt(std::int64_t n_tokens, std::int64_t vocab_size, std::uint64_t seed);

std::int64_t largest(const std::vector<std::int64_t>& values);

// A benchmark as lines, one per policy: time to the first token, relative cost of eviction, overhead of
// recording or peak memory, over whichever of budget, block and number of tokens was varied most; what else
// was varied has a panel for each of its values. Medians are drawn, ratios of times with their intervals, and
// those that cannot be told not at all. `none`, which has no budget, is level over all of them.
figures::Figure benchmark_figure(const Benchmark& benchmark);

// Time to the first token and tokens a second of every combination (KeyDiff, arXiv 2504.15364, Figs. 7 and
// 17), with what of it attention and eviction took. After a warm-up, every repetition runs all combinations
// once, in the order of `round_order`, so that whatever else the machine does meets them alike.
//   prompt: at least as long as the longest combination
//   throws Cancelled within one block of `monitor.control.cancel`; UsageError and InvalidInput as a capture
//   does
Benchmark measure_prefill(const capture::Model& model, const Sweep& sweep,
                          const std::vector<std::int32_t>& prompt, Monitor& monitor);

struct ScoringOptions {
  std::vector<std::string> policies;  // as on the command line; `none` scores nothing and is refused
  std::vector<std::int64_t> n_keys;   // of one KV head, before eviction
  std::int64_t head_dim = 128;        // d
  std::int64_t block = 128;           // B: so many rows are evicted of them
  std::int64_t group_size = 4;        // G: query heads that share the KV head
  std::int64_t repeat = 9;
  std::uint64_t seed = 0;
};

// What scoring one KV head's cache costs, and selecting the rows to keep, in processor time of one thread
// (KeyDiff, arXiv 2504.15364, Table 19), on normal keys and values. Policies that read attention are given
// made-up statistics; what taking these adds to the attention of a block is measured beside it. Times are
// also given in units of the baseline's at the fewest keys: keydiff, or the first policy where keydiff is not
// there.
//   throws UsageError on a policy that cannot be understood or scores nothing, and where no more keys are
//   there than a block has; Cancelled soon after `monitor.control.cancel`
Benchmark measure_scoring(const ScoringOptions& options, Monitor& monitor);

// Floating-point operations of KeyDiff's scoring, as its paper counts them (A.1).
double keydiff_flops(std::int64_t n_keys, std::int64_t head_dim);

// Resident memory at its largest, model included, of every combination, with the rows and bytes that its
// caches really took. Each runs in a process of its own, which loads the model anew: memory that an earlier
// run has freed but not given back cannot be counted for a later one, and none need be asked to forget its
// high-water mark. Call it before anything starts threads: a model, say.
//   prompt: at least as long as the longest combination
//   throws Cancelled soon after `monitor.control.cancel`; what the runs throw; Error where a process dies
Benchmark measure_peak_memory(const std::filesystem::path& model_folder,
                              const capture::ModelOptions& model_options, const Sweep& sweep,
                              const std::vector<std::int32_t>& prompt, Monitor& monitor);

// What recording costs: every combination runs with keys, queries and exact statistics written to a file, and
// without, one right after the other, each repetition in the other order, and the combinations in that of
// `round_order`. The file is removed after each run, whatever happens.
//   folder: where the file is written; the recording's cost depends on its disk
//   throws as measure_prefill does, and FileError where nothing can be written there
Benchmark measure_recording_overhead(const capture::Model& model, const Sweep& sweep,
                                     const std::vector<std::int32_t>& prompt,
                                     const std::filesystem::path& folder, Monitor& monitor);

}  // namespace keyscope::benchmarks
