#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <system_error>
#include <utility>

#include "app/benchmarks/benchmark.hpp"
#include "base/files.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::benchmarks {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// A recording that nobody keeps: a part of a file that never gets its name, and goes with its process at the
// latest when the next one writes there.
class ScratchRecording {
 public:
  explicit ScratchRecording(const fs::path& folder) : never_named_(folder / ".keyscope-bench.h5", true) {}
  ~ScratchRecording() {
    std::error_code error;
    fs::remove(path().string() + ".part", error);
  }
  ScratchRecording(const ScratchRecording&) = delete;
  ScratchRecording& operator=(const ScratchRecording&) = delete;

  const fs::path& path() const { return never_named_.part(); }

 private:
  AtomicFile never_named_;
};

struct OverheadSamples {
  std::vector<double> ttft_ms, plain_ms, recorded_ms, overhead;
  std::int64_t file_bytes = 0;
};

class Pairs {
 public:
  Pairs(const capture::Model& model, const Sweep& sweep, const std::vector<std::int32_t>& prompt,
        const fs::path& folder, Monitor& monitor)
      : model_(model), sweep_(sweep), prompt_(prompt), folder_(folder), monitor_(monitor) {
    for (const Case& each : cases_of(sweep)) {
      capture::plan_capture(model, capture_options(each, prompt, sweep));
      total_ += 2 * sweep.repeat * each.n_tokens;
    }
  }

  void warm_up(Case first) {
    first.n_tokens = std::min(first.n_tokens, first.block);
    OverheadSamples nothing;
    run_plain(first, nothing);
    done_ = 0;
  }

  void run(const Case& each, bool recorded_first, OverheadSamples& samples) {
    if (recorded_first) run_recorded(each, samples);
    run_plain(each, samples);
    if (!recorded_first) run_recorded(each, samples);
    samples.overhead.push_back(samples.recorded_ms.back() / samples.plain_ms.back() - 1);
  }

 private:
  void run_plain(const Case& each, OverheadSamples& samples) {
    const auto started = Clock::now();
    const auto outcome = run_case(each, {});
    samples.plain_ms.push_back(milliseconds_since(started));
    samples.ttft_ms.push_back(1e3 * outcome.prompt_seconds);
  }

  // From before the file is there until it has its name and lies on the disk.
  void run_recorded(const Case& each, OverheadSamples& samples) {
    const ScratchRecording scratch(folder_);
    const auto started = Clock::now();
    const auto writer = recording::make_recording_writer(scratch.path(), false);
    std::array<recording::RecordSink*, 1> sinks{writer.get()};
    run_case(each, sinks);
    samples.recorded_ms.push_back(milliseconds_since(started));
    samples.file_bytes = static_cast<std::int64_t>(fs::file_size(scratch.path()));
  }

  capture::RunOutcome run_case(const Case& each, std::span<recording::RecordSink* const> sinks) {
    std::int64_t within = 0;
    monitor_.control.on_progress = [&](const capture::CaptureProgress& now) {
      within = now.tokens_done;
      monitor_.report(done_ + within, total_, each.label() + (sinks.empty() ? "" : ", recorded"));
    };
    auto outcomes =
        capture::run_capture(model_, capture_options(each, prompt_, sweep_), sinks, monitor_.control);
    monitor_.control.on_progress = nullptr;
    done_ += within;
    return std::move(outcomes.front());
  }

  static double milliseconds_since(Clock::time_point started) {
    return std::chrono::duration<double, std::milli>(Clock::now() - started).count();
  }

  const capture::Model& model_;
  const Sweep& sweep_;
  const std::vector<std::int32_t>& prompt_;
  const fs::path& folder_;
  Monitor& monitor_;
  std::int64_t done_ = 0, total_ = 0;
};

}  // namespace

Benchmark measure_recording_overhead(const capture::Model& model, const Sweep& sweep,
                                     const std::vector<std::int32_t>& prompt, const fs::path& folder,
                                     Monitor& monitor) {
  Benchmark benchmark{
      .name = "capture", .setting = setting_of(model), .repeat = sweep.repeat, .seed = sweep.seed};
  benchmark.load_before = load_average();
  const std::vector<Case> cases = cases_of(sweep);
  std::vector<OverheadSamples> samples(cases.size());
  Pairs pairs(model, sweep, prompt, folder, monitor);
  pairs.warm_up(cases.front());
  LoadWatch load;
  load.look();
  for (std::int64_t i = 0; i < sweep.repeat; ++i) {
    for (const std::size_t c : round_order(cases.size(), i, sweep.seed))
      pairs.run(cases[c], i % 2 == 1, samples[c]);
    load.look();
  }
  benchmark.load = load.seen();
  for (std::size_t c = 0; c < cases.size(); ++c) {
    Row row = row_of(cases[c]);
    row.ttft_ms = spread_of(samples[c].ttft_ms);
    row.plain_ms = spread_of(samples[c].plain_ms);
    row.recorded_ms = spread_of(samples[c].recorded_ms);
    row.overhead = spread_of(samples[c].overhead);
    row.recording_ratio =
        paired_ratio({samples[c].recorded_ms, benchmark.load}, {samples[c].plain_ms, benchmark.load});
    row.file_bytes = samples[c].file_bytes;
    benchmark.rows.push_back(std::move(row));
  }
  benchmark.load_after = load_average();
  return benchmark;
}

}  // namespace keyscope::benchmarks
