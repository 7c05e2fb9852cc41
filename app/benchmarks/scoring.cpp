#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "analysis/matrix_view.hpp"
#include "analysis/policies/policy.hpp"
#include "analysis/policies/registry.hpp"
#include "analysis/policies/row_selection.hpp"
#include "analysis/policies/score_parts.hpp"
#include "analysis/policies/slots.hpp"
#include "app/benchmarks/benchmark.hpp"
#include "base/errors.hpp"
#include "capture/inference/engine.hpp"

namespace keyscope::benchmarks {

namespace {

// This thread's processor time in seconds: what others do on the machine is not in it.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

constexpr double kLeastSeconds = 2e-3;  // of one sample: long against the clock's grain
constexpr int kLayer = 8;               // beyond the first layers, which some policies leave alone

// One KV head's cache with everything that any policy may look at.
class MadeUpCache {
 public:
  MadeUpCache(std::int64_t n_keys, const ScoringOptions& options)
      : keys_(n_keys, options.head_dim),
        values_(n_keys, options.head_dim),
        group_size_(static_cast<int>(options.group_size)),
        block_(options.block) {
    std::mt19937_64 draw(options.seed);
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<float> uniform;
    for (Eigen::Index i = 0; i < keys_.size(); ++i) keys_.data()[i] = 0.5F + normal(draw);
    for (Eigen::Index i = 0; i < values_.size(); ++i) values_.data()[i] = normal(draw);
    const auto n = static_cast<std::size_t>(n_keys);
    positions_.resize(n);
    std::iota(positions_.begin(), positions_.end(), 0);
    for (std::size_t i = 0; i < n; ++i) {
      weights_.push_back(uniform(draw) / static_cast<float>(n));
      received_.push_back(static_cast<double>(uniform(draw)));
      seen_by_.push_back(static_cast<std::int32_t>(n - i));
    }
    add_queries(options, draw);
  }

  // What a capture computes of queries before such a policy scores: their weights on the rows, and what a
  // block adds to their moments.
  void look_at_queries(const analysis::PolicyNeeds& needs) {
    if (needs.window_weights > 0)
      window_weights_ = analysis::weights_on_rows(last_queries(needs.window_weights), keys_.rows(), rules_,
                                                  keys_, positions_);
    if (!needs.query_moments) return;
    for (analysis::QueryMoments& moments : moments_)
      moments.add(view_rows(queries_.data(), block_, queries_.cols()), rotation_);
  }

  capture::AttentionTiming attention(const ScoringOptions& options) const {
    return {keys_, values_, positions_, options.group_size, options.block};
  }

  // Only what the policy asks for, as in a capture.
  analysis::PolicyInput input(const analysis::PolicyNeeds& needs) {
    analysis::PolicyInput input{.keys = keys_,
                                .values = values_.topRows(needs.values ? values_.rows() : 0),
                                .positions = positions_,
                                .n_new_rows = block_,
                                .layer = kLayer};
    if (needs.last_row_group) input.last_row_group = weights_;
    if (needs.last_row_layer) input.last_row_layer = weights_;
    if (needs.attention_received) input.attention_received = received_, input.attention_queries = seen_by_;
    if (needs.window > 0) input.window_sums = weights_;
    input.group_size = group_size_;
    input.rotation = &rotation_;
    if (needs.query_moments) input.query_moments = moments_;
    if (needs.window_queries > 0) window_queries_ = last_queries(needs.window_queries);
    if (needs.window_queries > 0) input.window_queries = &window_queries_;
    if (needs.window_weights > 0) input.window_weights = &window_weights_;
    return input;
  }

 private:
  // A block of them for every query head; before it there were as many queries as there are keys.
  void add_queries(const ScoringOptions& options, std::mt19937_64& draw) {
    std::normal_distribution<float> normal;
    for (Eigen::Index pair = 0; pair < options.head_dim / 2; ++pair)
      rotation_.frequencies.push_back(
          std::pow(1e4, -2.0 * static_cast<double>(pair) / static_cast<double>(options.head_dim)));
    queries_.resize(std::max<Eigen::Index>(keys_.rows(), group_size_ * block_), options.head_dim);
    for (Eigen::Index i = 0; i < queries_.size(); ++i) queries_.data()[i] = normal(draw) - 0.5F;
    moments_.resize(group_size_);
    for (analysis::QueryMoments& moments : moments_) moments.add(queries_, rotation_);
    rules_.assign(group_size_, {.scale = 1 / std::sqrt(static_cast<double>(options.head_dim))});
  }

  // Of each query head the block's last `window`.
  RowMatrixD last_queries(std::int64_t window) const {
    const Eigen::Index w = std::min(window, block_);
    RowMatrixD last(group_size_ * w, queries_.cols());
    for (int head = 0; head < group_size_; ++head)
      last.middleRows(head * w, w) = queries_.middleRows((head + 1) * block_ - w, w).cast<double>();
    return last;
  }

  RowMatrixF keys_, values_, queries_;
  std::vector<analysis::AttentionRules> rules_;
  int group_size_;
  analysis::Rotation rotation_;
  std::vector<analysis::QueryMoments> moments_;
  RowMatrixD window_queries_, window_weights_;
  std::int64_t block_;
  std::vector<std::int32_t> positions_, seen_by_;
  std::vector<float> weights_;
  std::vector<double> received_;
};

// One policy on one cache, timed.
class TimedPolicy {
 public:
  TimedPolicy(std::string name, std::unique_ptr<analysis::Policy> policy, std::int64_t n_keys,
              std::int64_t budget)
      : name_(std::move(name)),
        policy_(std::move(policy)),
        budget_(budget),
        scores_(n_keys),
        forced_(scores_.size()) {}

  // One sample of each; repeated within it as often as it takes to be long enough.
  void measure(MadeUpCache& cache, const capture::AttentionTiming& attention) {
    const analysis::PolicyNeeds needs = policy_->needs();
    const double queries_us = needs.queries() ? 1e6 * seconds_of([&] { cache.look_at_queries(needs); }) : 0;
    const analysis::PolicyInput input = cache.input(needs);
    score_us_.push_back(1e6 * seconds_of([&] { policy_->score(input, scores_); }));
    select_us_.push_back(1e6 * seconds_of([&] {
                           std::ranges::fill(forced_, std::uint8_t{0});
                           policy_->force(input, budget_, forced_);
                           analysis::select_rows(scores_, forced_, budget_);
                         }));
    statistics_us_.push_back(queries_us + 1e6 * capture::engine().statistics_seconds(attention, needs));
  }

  const std::string& name() const { return name_; }
  std::int64_t n_keys() const { return static_cast<std::int64_t>(scores_.size()); }

  // baseline: whose samples are the units, repetition by repetition
  Row row(const TimedPolicy& baseline) const {
    Row row;
    row.policy = name_;
    row.budget = budget_;
    row.block = n_keys() - budget_;
    row.n_tokens = n_keys();
    row.score_us = spread_of(score_us_);
    row.select_us = spread_of(select_us_);
    row.statistics_us = spread_of(statistics_us_);
    std::vector<double> relative, all_relative;
    for (std::size_t i = 0; i < score_us_.size(); ++i) {
      relative.push_back(score_us_[i] / baseline.score_us_[i]);
      all_relative.push_back(all_us(i) / baseline.all_us(i));
    }
    row.relative = spread_of(std::move(relative));
    row.all_relative = spread_of(std::move(all_relative));
    const bool itself = this == &baseline;
    const auto rounds = std::ssize(score_us_);
    row.score_ratio = itself ? unit_ratio(rounds) : paired_ratio({score_us_}, {baseline.score_us_});
    row.all_ratio = itself ? unit_ratio(rounds) : paired_ratio({all_us()}, {baseline.all_us()});
    return row;
  }

 private:
  double all_us(std::size_t i) const { return score_us_[i] + select_us_[i] + statistics_us_[i]; }
  std::vector<double> all_us() const {
    std::vector<double> all;
    for (std::size_t i = 0; i < score_us_.size(); ++i) all.push_back(all_us(i));
    return all;
  }

  template <typename Work>
  static double seconds_of(const Work& work) {
    std::int64_t n = 0;
    double seconds = 0;
    const double started = thread_seconds();
    for (std::int64_t batch = 1; seconds < kLeastSeconds; batch *= 2) {
      for (std::int64_t i = 0; i < batch; ++i) work();
      n += batch;
      seconds = thread_seconds() - started;
    }
    return seconds / static_cast<double>(n);
  }

  std::string name_;
  std::unique_ptr<analysis::Policy> policy_;
  std::int64_t budget_;
  std::vector<double> scores_;
  std::vector<std::uint8_t> forced_;
  std::vector<double> score_us_, select_us_, statistics_us_;
};

// Numbers of a KV head in such a file; 0: there is none.
std::int64_t file_width(analysis::HeadFile file, const ScoringOptions& options) {
  switch (file) {
    case analysis::HeadFile::kVectors:
      return options.head_dim;
    case analysis::HeadFile::kFlags:
      return 1;
    case analysis::HeadFile::kQueryMeans:
      return options.group_size * (2 * options.head_dim - options.head_dim / 2);
    case analysis::HeadFile::kNone:
      break;
  }
  return 0;
}

std::vector<TimedPolicy> policies_for(std::int64_t n_keys, const ScoringOptions& options) {
  if (n_keys <= options.block)
    throw UsageError(fmt::format("--keys {}: expected more than --block {}, which is what is evicted of them",
                                 n_keys, options.block));
  std::vector<TimedPolicy> timed;
  for (const std::string& text : options.policies) {
    auto policy = analysis::make_policy(analysis::parse_policy(text), options.seed);
    if (policy == nullptr) throw UsageError("--policy none scores nothing; leave it out");
    if (const analysis::Slots& slots = policy->slots();
        !slots.neutral() || slots.split != analysis::Slots::Split::kUniform)
      throw UsageError(
          fmt::format("--policy {}: what is measured is the scorer alone; leave out protect, granularity, "
                      "split and critical",
                      text));
    // Whatever its file says.
    if (const std::int64_t width = file_width(policy->head_file(), options); width > 0)
      policy->take_file(std::vector<RowMatrixF>(kLayer + 1, RowMatrixF::Ones(1, width)));
    timed.emplace_back(text, std::move(policy), n_keys, n_keys - options.block);
  }
  return timed;
}

// KeyDiff (arXiv 2504.15364), Table 19: latency of scoring on a telephone, in units of KeyDiff's at 512 keys.
std::optional<double> paper_relative(const std::string& policy, std::int64_t n_keys) {
  static const std::array<std::int64_t, 5> kKeys{512, 1024, 2048, 4096, 8192};
  static const std::map<std::string, std::array<double, 5>> kLatency{
      {"snapkv", {1.92, 2.46, 4.50, 8.94, 11.42}},
      {"tova", {1.02, 0.94, 1.25, 1.95, 3.06}},
      {"keydiff", {1.00, 1.03, 1.01, 1.07, 1.37}},
      {"h2o", {1.10, 0.99, 1.52, 2.32, 4.23}}};
  const auto row = kLatency.find(policy);
  const auto column = std::ranges::find(kKeys, n_keys);
  if (row == kLatency.end() || column == kKeys.end()) return std::nullopt;
  return row->second.at(column - kKeys.begin());
}

std::size_t baseline_index(const std::vector<std::string>& policies) {
  const auto found = std::ranges::find(policies, "keydiff");
  return found == policies.end() ? 0 : static_cast<std::size_t>(found - policies.begin());
}

}  // namespace

double keydiff_flops(std::int64_t n_keys, std::int64_t head_dim) {
  const auto n = static_cast<double>(n_keys), d = static_cast<double>(head_dim);
  return (12 * d + 97) * n + 3 * d + 94;
}

Benchmark measure_scoring(const ScoringOptions& options, Monitor& monitor) {
  Benchmark benchmark{
      .name = "score",
      .setting = {.model = "", .dtype = "float32", .device = "cpu", .kernels = "", .threads = 1},
      .repeat = options.repeat,
      .seed = options.seed};
  benchmark.load_before = load_average();
  std::vector<std::int64_t> sizes = options.n_keys;
  std::ranges::sort(sizes);
  std::vector<std::pair<MadeUpCache, std::vector<TimedPolicy>>> all;
  all.reserve(sizes.size());
  for (const std::int64_t n_keys : sizes)
    all.emplace_back(MadeUpCache(n_keys, options), policies_for(n_keys, options));
  const std::int64_t total =
      options.repeat * static_cast<std::int64_t>(sizes.size() * options.policies.size());
  std::int64_t done = 0;
  LoadWatch load;  // said, but no reason for doubt: it does not lengthen a thread's processor time
  for (std::int64_t i = 0; i < options.repeat; ++i, load.look())
    for (const std::size_t at : round_order(sizes.size() * options.policies.size(), i, options.seed)) {
      auto& [cache, policies] = all[at / options.policies.size()];
      TimedPolicy& policy = policies[at % options.policies.size()];
      monitor.control.wait_for_turn();
      monitor.report(done++, total, fmt::format("{}, {} keys", policy.name(), policy.n_keys()));
      policy.measure(cache, cache.attention(options));
    }
  benchmark.load = load.seen();
  const TimedPolicy& baseline = all.front().second.at(baseline_index(options.policies));
  for (const auto& [cache, policies] : all)
    for (const TimedPolicy& policy : policies) {
      Row row = policy.row(baseline);
      row.paper_relative = paper_relative(row.policy, row.n_tokens);
      if (row.policy == "keydiff") {
        row.flops = keydiff_flops(row.n_tokens, options.head_dim);
        row.flops_relative = *row.flops / keydiff_flops(sizes.front(), options.head_dim);
      }
      benchmark.rows.push_back(std::move(row));
    }
  benchmark.load_after = load_average();
  return benchmark;
}

}  // namespace keyscope::benchmarks
