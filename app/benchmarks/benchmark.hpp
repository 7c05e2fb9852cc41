#pragma once

// What a benchmark hands out: one row per combination that was run, and the setting of them all.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/benchmarks/spread.hpp"
#include "capture/inference/capture_control.hpp"
#include "capture/model/model.hpp"

namespace keyscope::benchmarks {

// One combination and its measurements; what a benchmark does not measure stays empty. Shares are of the time
// to the first token.
struct Row {
  std::string policy;                  // as it was asked for: `keydiff:recent=0.1`
  std::optional<std::int64_t> budget;  // N; empty for `none`
  std::optional<std::int64_t> block;   // B
  std::optional<std::string> schedule;
  std::int64_t n_tokens = 0;  // of the prompt; keys where only scoring is measured

  std::optional<Spread> ttft_ms, tokens_per_second;
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
  std::vector<Row> rows = {};
};

// {"format": 1, "benchmark": …, "rows": […]}: a median under its quantity's name, its extremes as `_min`,
// `_max`.
nlohmann::ordered_json benchmark_json(const Benchmark& benchmark);

// The load average of the last minute; empty where the system does not say.
std::optional<double> load_average();

// Whoever watches a benchmark, and may end it.
struct Monitor {
  capture::CaptureControl control;  // `cancel` ends it: within one block, or one policy's scoring
  // How far it is, of how much, and what is being run; may be empty.
  std::function<void(std::int64_t done, std::int64_t total, const std::string& label)> on_progress;

  void tell(std::int64_t done, std::int64_t total, const std::string& label) const {
    if (on_progress) on_progress(done, total, label);
  }
};

}  // namespace keyscope::benchmarks
