#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "app/benchmarks/benchmark.hpp"
#include "capture/inference/engine.hpp"
#include "capture/model/model.hpp"
#include "capture/model/products.hpp"

namespace keyscope::benchmarks {

namespace {

// What the model's matrix products alone reach, the roof over a prefill: 10⁹ operations a second (a
// multiplication and an addition are two), the best of a few products.
double measure_gflops(capture::ProductTimer& product) {
  constexpr int kProducts = 5;
  double best = 0;
  for (int i = 0; i <= kProducts; ++i) {
    const double seconds = product.measure_seconds();
    if (i > 0) best = std::max(best, 2 * product.multiply_adds() / seconds / 1e9);  // the first one warms up
  }
  return best;
}

// The measurements of one combination, one entry per repetition.
struct PrefillSamples {
  std::vector<double> ttft_ms, tokens_per_second, attention_share, eviction_share, products_share, generated;
  std::vector<double> attention_ms, eviction_ms, products_ms;
  std::int64_t peak_cache_rows = 0, peak_cache_bytes = 0;
};

// Goes through combinations, telling how far it is over all of them.
class Rounds {
 public:
  Rounds(const capture::Model& model, const Sweep& sweep, const std::vector<std::int32_t>& prompt,
         Monitor& monitor)
      : model_(model), sweep_(sweep), prompt_(prompt), monitor_(monitor), cases_(cases_of(sweep)) {
    for (const Case& each : cases_) {
      const auto options = capture_options(each, prompt_, sweep_);
      total_ += sweep_.repeat * capture::plan_capture(model_, options).runs.front().max_tokens(each.n_tokens);
    }
  }

  const std::vector<Case>& cases() const { return cases_; }

  // Touches all weights and lets every library set itself up.
  void warm_up() {
    for (const capture::Schedule schedule : sweep_.schedules) {
      Case first = cases_.front();
      first.schedule = schedule;
      first.n_tokens = std::min(first.n_tokens, first.block);
      monitor_.control.on_progress = [&](const capture::CaptureProgress&) {
        monitor_.report(0, total_, "warming up");
      };
      capture::run_capture(model_, capture_options(first, prompt_, sweep_), {}, monitor_.control);
    }
  }

  capture::RunOutcome run(const Case& each) {
    std::int64_t within = 0;
    monitor_.control.on_progress = [&](const capture::CaptureProgress& now) {
      within = now.tokens_done;
      monitor_.report(done_ + within, total_, each.label());
    };
    auto outcomes =
        capture::run_capture(model_, capture_options(each, prompt_, sweep_), {}, monitor_.control);
    monitor_.control.on_progress = nullptr;
    done_ += within;
    return std::move(outcomes.front());
  }

 private:
  const capture::Model& model_;
  const Sweep& sweep_;
  const std::vector<std::int32_t>& prompt_;
  Monitor& monitor_;
  std::vector<Case> cases_;
  std::int64_t done_ = 0, total_ = 0;
};

void add(PrefillSamples& samples, const Case& each, const capture::RunOutcome& outcome,
         double product_seconds) {
  const double seconds = outcome.prompt_seconds;
  samples.ttft_ms.push_back(1e3 * seconds);
  samples.tokens_per_second.push_back(static_cast<double>(each.n_tokens) / seconds);
  samples.attention_share.push_back(outcome.attention_seconds / seconds);
  samples.eviction_share.push_back(outcome.eviction_seconds / seconds);
  samples.products_share.push_back(product_seconds / seconds);
  samples.attention_ms.push_back(1e3 * outcome.attention_seconds);
  samples.eviction_ms.push_back(1e3 * outcome.eviction_seconds);
  samples.products_ms.push_back(1e3 * product_seconds);
  const auto n_fed_back = static_cast<double>(outcome.generated.size()) - 1;
  if (n_fed_back > 0) samples.generated.push_back(n_fed_back / outcome.generation_seconds);
  samples.peak_cache_rows = outcome.peak_cache_rows;
  samples.peak_cache_bytes = outcome.peak_cache_bytes;
}

// None of what took no time: nothing is evicted under the full cache.
std::optional<PairedRatio> part_ratio(const std::vector<double>& part_ms, const RoundTimes& all) {
  if (std::ranges::any_of(part_ms, [](double ms) { return !(ms > 0); })) return std::nullopt;
  return paired_ratio({part_ms, all.load}, all);
}

Row row_of(const Case& each, const PrefillSamples& samples, const MachineLoad& load) {
  Row row = row_of(each);
  row.ttft_ms = spread_of(samples.ttft_ms);
  row.ttft_rounds = {samples.ttft_ms, load};
  row.attention_ratio = part_ratio(samples.attention_ms, row.ttft_rounds);
  row.eviction_ratio = part_ratio(samples.eviction_ms, row.ttft_rounds);
  row.products_ratio = part_ratio(samples.products_ms, row.ttft_rounds);
  row.tokens_per_second = spread_of(samples.tokens_per_second);
  row.attention_share = spread_of(samples.attention_share);
  row.eviction_share = spread_of(samples.eviction_share);
  row.products_share = spread_of(samples.products_share);
  row.generated_per_second = spread_of(samples.generated);
  row.peak_cache_rows = samples.peak_cache_rows;
  row.peak_cache_bytes = samples.peak_cache_bytes;
  return row;
}

// Of every row whose combination was run with the full cache too.
void compare_with_none(std::vector<Row>& rows) {
  for (Row& row : rows) {
    const auto none = std::ranges::find_if(rows, [&](const Row& other) {
      return !other.budget && other.block == row.block && other.schedule == row.schedule &&
             other.n_tokens == row.n_tokens;
    });
    if (none == rows.end()) continue;
    row.ttft_ratio = &*none == &row ? unit_ratio(std::ssize(row.ttft_rounds.times))
                                    : paired_ratio(row.ttft_rounds, none->ttft_rounds);
    std::vector<double> relative;
    for (std::size_t i = 0; i < row.ttft_rounds.times.size(); ++i)
      relative.push_back(row.ttft_rounds.times[i] / none->ttft_rounds.times[i]);
    row.ttft_relative = spread_of(std::move(relative));
  }
}

}  // namespace

Benchmark measure_prefill(const capture::Model& model, const Sweep& sweep,
                          const std::vector<std::int32_t>& prompt, Monitor& monitor) {
  Benchmark benchmark{
      .name = "prefill", .setting = setting_of(model), .repeat = sweep.repeat, .seed = sweep.seed};
  benchmark.load_before = load_average();
  Rounds rounds(model, sweep, prompt, monitor);
  rounds.warm_up();
  // Of so many tokens that it runs at full speed.
  const auto product =
      capture::engine().product_timer(model, std::clamp<std::int64_t>(largest(sweep.n_tokens), 512, 1024));
  const double flops_per_token = 2 * capture::token_products(model.config());
  std::vector<PrefillSamples> samples(rounds.cases().size());
  std::vector<double> rates;
  LoadWatch load;
  load.look();
  for (std::int64_t i = 0; i < sweep.repeat; ++i) {
    rates.push_back(measure_gflops(*product));
    for (const std::size_t c : round_order(samples.size(), i, sweep.seed)) {
      const Case& each = rounds.cases()[c];
      const double product_seconds =
          static_cast<double>(each.n_tokens) * flops_per_token / rates.back() / 1e9;
      add(samples[c], each, rounds.run(each), product_seconds);
    }
    load.look();
  }
  benchmark.load = load.seen();
  for (std::size_t c = 0; c < samples.size(); ++c)
    benchmark.rows.push_back(row_of(rounds.cases()[c], samples[c], benchmark.load));
  compare_with_none(benchmark.rows);
  benchmark.product_gflops = spread_of(rates);
  benchmark.load_after = load_average();
  return benchmark;
}

}  // namespace keyscope::benchmarks
