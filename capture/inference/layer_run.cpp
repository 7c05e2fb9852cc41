#include "capture/inference/layer_run.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include "base/errors.hpp"
#include "capture/inference/aten_arithmetic.hpp"
#include "capture/inference/kernel_arithmetic.hpp"
#include "capture/kernels/kernels.hpp"
#include "capture/model/transformer.hpp"

namespace keyscope::capture {

namespace {

using std::int64_t;

// The transformer's own arithmetic.
std::unique_ptr<LayerArithmetic> arithmetic_of(const Transformer& transformer, const LayerRows& rows) {
  if (const auto* aten = dynamic_cast<const AtenTransformer*>(&transformer))
    return std::make_unique<AtenLayer>(*aten, rows);
  return std::make_unique<KernelLayer>(transformer, rows);
}

LayerRows rows_of(const LayerPlan& plan) {
  LayerRows rows{plan.layer, plan.capacities, plan.cache_positions, plan.cache_format};
  if (const analysis::Policy* policy = plan.eviction.policy; policy != nullptr) {
    rows.memory = policy->row_memory();
    rows.heads_share = policy->slots().deals_among_heads();
  }
  return rows;
}

template <typename T>
void drop_front(std::vector<T>& entries, std::size_t n) {
  entries.erase(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(n));
}

}  // namespace

// One block on its way through the layer.
struct LayerRun::Block {
  ProjectedBlock projected;
  at::Tensor joined;  // (n, n_heads · head_dim): attention's output goes there
  AttentionOutput output{};
  std::vector<int64_t> policy_windows{};    // the first of the output's windows
  Unfinished recorded{};                    // what becomes of its record
  const LayerEviction* borrowed = nullptr;  // what the lender evicted after it
  const LayerWeights* weights = nullptr;    // the layer's

  int64_t first_position() const { return projected.first_position; }
  int64_t n() const { return projected.n; }
  int64_t end() const { return first_position() + n(); }
};

LayerRun::LayerRun(const Transformer& transformer, LayerPlan plan, const LayerRun* lender)
    : transformer_(transformer),
      plan_(std::move(plan)),
      lender_(lender),
      lends_(transformer.config().last_reader(plan_.layer) != plan_.layer),
      rules_(attention_rules(transformer.config(), plan_.layer)),
      arithmetic_(arithmetic_of(transformer, rows_of(plan_))),
      statistics_(plan_.recording.layer ? transformer.config().n_heads : 0,
                  transformer.config().heads(plan_.layer).n_kv_heads,
                  plan_.recording.layer ? plan_.n_prompt : 0),
      watched_(plan_.watched, plan_.layer),
      all_time_(transformer.options(plan_.layer).device()),
      attention_time_(transformer.options(plan_.layer).device()),
      eviction_time_(transformer.options(plan_.layer).device()) {
  if (transformer.config().attends(plan_.layer))
    rotation_ = transformer.rotation(plan_.layer);
  else
    state_ = transformer.fresh_state(plan_.layer);
  records_late_ = may_record_late();
  if (records_late_) recorded_positions_.resize(cache().n_heads());
}

std::int64_t LayerRun::n_bytes() const {
  return cache().n_bytes() + (state_.memory.defined() ? state_.n_bytes() : 0);
}

std::unique_ptr<LayerRun> LayerRun::fork(LayerPlan plan, const LayerRun* lender) const {
  if (plan.eviction.deals())  // room for what is there, of which others may have the more
    std::ranges::fill(plan.capacities, cache().largest_rows() + plan.block_size);
  auto forked = std::make_unique<LayerRun>(transformer_, std::move(plan), lender);
  forked->arithmetic_->cache().copy_rows(cache());
  forked->cake_share_ = cake_share_;
  forked->arithmetic_->copy_moments(*arithmetic_);
  forked->watched_ = watched_;
  if (state_.memory.defined()) forked->state_ = state_.copy();
  if (open_block_ && forked->plan_.eviction.with_all_layers()) {
    forked->open_block_ = open_block_;
    forked->open_block_->rotation = &forked->rotation_;
  } else if (open_block_)
    forked->evict_after(*open_block_);
  return forked;
}

void LayerRun::follow(EvictionRule eviction, Counts counts) {
  plan_.eviction = std::move(eviction);
  plan_.counts = counts;
  open_rules_.clear();
  if (!open_block_ || plan_.eviction.with_all_layers()) return;
  evict_after(*open_block_);
  open_block_.reset();
}

std::int64_t LayerRun::stored_bytes() const {
  std::int64_t bytes = 0;
  for (int head = 0; head < cache().n_heads(); ++head)
    bytes += analysis::packed_bytes(cache().stored_rows(head), plan_.cache_format);
  return bytes;
}

LayerTimes LayerRun::times() {
  return {all_time_.seconds(), attention_time_.seconds(), eviction_time_.seconds()};
}

void LayerRun::check() {
  try {
    arithmetic_->check();
  } catch (const InvalidInput& error) {
    throw InvalidInput(fmt::format("layer {}, {}", plan_.layer, error.what()));
  }
}

void LayerRun::leave_open(std::vector<EvictionRule> rules) { open_rules_ = std::move(rules); }

void LayerRun::evict_after(BlockStatistics block) {
  block.rotation = &rotation_;
  late_eviction_ = {};
  if (lender_ != nullptr)
    late_eviction_ = follow_lender(lender_->late_eviction_, arithmetic_->cache());
  else if (plan_.eviction.due(cache(), block.end))
    late_eviction_ = capture::evict(plan_.eviction, *arithmetic_, block, lends_ || watched_.any());
  watched_.note(late_eviction_, block.end);
}

// Of what went before only that is kept which a borrower has yet to come to.
void LayerRun::lend(const Projections& projections, int64_t offset, const TokenSpan& tokens) {
  if (!plan_.lends_whole_prompt || tokens.first_position >= plan_.n_prompt) lent_.clear();
  const auto copy = [&](const at::Tensor& rows) {
    return rows.narrow(0, offset, std::ssize(tokens.ids)).clone();
  };
  lent_.push_back({tokens.first_position, copy(projections.keys), copy(projections.values)});
}

const LayerRun::Lent& LayerRun::lent(int64_t position) const {
  return *(std::ranges::upper_bound(lent_, position, {}, &Lent::first_position) - 1);
}

void LayerRun::borrow(std::span<const Part> parts, Projections& projections) {
  std::vector<at::Tensor> keys, values;
  for (const Part& part : parts) {
    const Lent& lent = part.run.lender_->lent(part.tokens.first_position);
    keys.push_back(lent.keys);
    values.push_back(lent.values);
  }
  const at::Device here = projections.queries.device();
  projections.keys = (parts.size() == 1 ? keys.front() : at::cat(keys)).to(here);
  projections.values = (parts.size() == 1 ? values.front() : at::cat(values)).to(here);
}

Routing LayerRun::run(const LayerWeights& weights, at::Tensor& hidden, const TokenSpan& tokens,
                      const BeforeBlock& before_block, const AfterBlock& after_block) {
  const Part part{*this, tokens, before_block, after_block};
  return run(weights, hidden, {&part, 1});
}

Routing LayerRun::run(const LayerWeights& weights, at::Tensor& hidden, std::span<const Part> parts) {
  std::vector<WorkTime::Span> all;
  for (const Part& part : parts) {
    part.run.check();
    all.emplace_back(part.run.all_time_);
  }
  const Transformer& transformer = parts.front().run.transformer_;
  const int layer = parts.front().run.plan_.layer;
  const at::Tensor mixed =
      transformer.config().attends(layer) ? attend(weights, hidden, parts) : recur(weights, hidden, parts);
  std::vector<std::int32_t> ids;
  for (const Part& part : parts) ids.insert(ids.end(), part.tokens.ids.begin(), part.tokens.ids.end());
  return transformer.finish_layer(weights, mixed, transformer.layer_input(layer, ids), hidden);
}

at::Tensor LayerRun::attend(const LayerWeights& weights, const at::Tensor& hidden,
                            std::span<const Part> parts) {
  Projections projections = parts.front().run.transformer_.project(weights, hidden);
  int64_t first = 0;  // row of the part's first token
  for (const Part& part : parts) {
    if (part.run.lends_) part.run.lend(projections, first, part.tokens);
    first += std::ssize(part.tokens.ids);
  }
  if (parts.front().run.lender_ != nullptr) borrow(parts, projections);
  at::Tensor joined = at::empty_like(projections.queries);
  first = 0;
  for (const Part& part : parts) {
    LayerRun& run = part.run;
    const int64_t n_tokens = std::ssize(part.tokens.ids);
    for (int64_t offset = 0; offset < n_tokens; offset += run.plan_.block_size) {
      part.before_block();
      const int64_t n = std::min(run.plan_.block_size, n_tokens - offset);
      Block block{{projections, first + offset, n, part.tokens.first_position + offset},
                  joined.narrow(0, first + offset, n)};
      Unfinished& recorded = block.recorded;
      recorded.first_position = block.first_position();
      recorded.n = n;
      recorded.prompt = block.first_position() < run.plan_.n_prompt;
      recorded.last_of_prompt = recorded.prompt && block.end() == run.plan_.n_prompt;
      if (run.lender_ != nullptr)
        block.borrowed =
            &run.lender_->lent(part.tokens.first_position).evictions[offset / run.plan_.block_size];
      block.weights = &weights;
      run.run_block(block);
      if (!run.records_late_) {
        part.after_block(n, std::move(recorded.record));
        continue;
      }
      recorded.after_block = part.after_block;
      run.unfinished_.push_back(std::move(recorded));
      run.finish_records(1);
    }
    first += n_tokens;
  }
  return joined;
}

// Products of all tokens at once, the state block by block; of a block nothing is recorded but that it was.
at::Tensor LayerRun::recur(const LayerWeights& weights, const at::Tensor& hidden,
                           std::span<const Part> parts) {
  const Transformer& transformer = parts.front().run.transformer_;
  const RecurrentProjections projections = transformer.project_recurrent(weights, hidden);
  at::Tensor mixed = at::empty_like(projections.gate);
  int64_t first = 0;
  for (const Part& part : parts) {
    LayerRun& run = part.run;
    const int64_t end = first + std::ssize(part.tokens.ids);
    for (; first < end; first += run.plan_.block_size) {
      part.before_block();
      const int64_t n = std::min(run.plan_.block_size, end - first);
      const auto rows = [&](const at::Tensor& all) { return all.narrow(0, first, n); };
      rows(mixed).copy_(transformer.recur(weights,
                                          {rows(projections.mixed), rows(projections.gate),
                                           rows(projections.update), rows(projections.decay)},
                                          run.state_));
      recording::LayerBlock record;
      record.layer = run.plan_.layer;
      part.after_block(n, std::move(record));
    }
    first = end;
  }
  return mixed;
}

// Where all layers have one budget, nobody knows ahead how much of it one of them will come to hold. A fourth
// more than is needed, so that a cache that grows is not moved at every block.
void LayerRun::make_room(std::int64_t n_new) {
  KvCache& cache = arithmetic_->cache();
  cache.share_room(n_new);
  const std::int64_t n_rows = cache.largest_rows() + n_new;
  if (plan_.eviction.deals() && cache.capacity() < n_rows) cache.make_room(n_rows + n_rows / 4);
}

// Of a number that is not finite, attention knows more than what came of it, and an earlier block has the
// first word.
void LayerRun::run_block(Block& block) {
  try {
    take_through(block);
  } catch (const InvalidInput&) {
    finish_records();
    if (block.recorded.statistics) arrived(block.recorded);
    check();
    throw;
  }
}

void LayerRun::take_through(Block& block) {
  const LayerRecording& recording = plan_.recording;
  Unfinished& recorded = block.recorded;
  recorded.record.layer = plan_.layer;
  make_room(block.n());
  arithmetic_->append(block.projected);
  peak_rows_ = std::max(peak_rows_, cache().largest_rows());
  if (recording.layer)
    recorded.rows = arithmetic_->expect({recording.keys, recording.values, recording.queries});
  attend(block);
  if (recording.layer && !records_late_) record_rows(recorded);
  count_attention(block);
  count_queries(block);
  weigh_values(block);
  evict(block);
  if (recording.layer && recorded.last_of_prompt && plan_.cache_format.quantises())
    record_bytes(recorded.record);
  arithmetic_->end_block();
}

// The policies' windows are the first. What is summed over the whole run is taken from the beginning, what
// describes a block only where it decides about an eviction.
AttentionWants LayerRun::wants(const Block& block) const {
  AttentionWants wants;
  wants.column_sums = plan_.counts.attention;
  const auto add = [&](const EvictionRule& rule) {
    if (lender_ != nullptr || rule.policy == nullptr || !rule.policy->evicts(plan_.layer)) return;
    const analysis::PolicyNeeds needs = rule.policy->needs();
    if (rule.due(cache(), block.end())) add_wants(wants, needs);
    wants.column_sums |= needs.attention_received;
  };
  add(plan_.eviction);
  for (const EvictionRule& rule : open_rules_) add(rule);
  if (!plan_.recording.layer || !block.recorded.prompt) return wants;
  wants.column_sums = wants.entropy = true;
  wants.last_row = wants.last_row || block.recorded.last_of_prompt;
  wants.may_come_late = records_late_;
  return wants;
}

void LayerRun::attend(Block& block) {
  AttentionWants wanted = wants(block);
  block.policy_windows = wanted.windows;
  if (const int64_t n = queries_in_recorded_window(block.recorded); n > 0) wanted.windows.push_back(n);
  if (plan_.recording.layer && plan_.recording.attention) want_weights(block.recorded, wanted);
  const WorkTime::Span attention(attention_time_);
  try {
    block.output = arithmetic_->attend(wanted);
  } catch (const InvalidInput& error) {
    throw InvalidInput(
        fmt::format("layer {}, tokens from {}: {}", plan_.layer, block.first_position(), error.what()));
  }
  block.recorded.statistics = block.output.late;
  if (const at::Tensor& gate = block.projected.projections.gate; gate.defined()) {
    const at::Tensor open = gate.narrow(0, block.projected.offset, block.n()).to(at::kFloat).sigmoid_();
    block.joined.copy_(open.mul_(block.output.output));
  } else {
    block.joined.copy_(block.output.output);
  }
}

// Adds the block's attention to what the cache's rows have received, and to the record. What comes late is
// for the record alone.
void LayerRun::count_attention(Block& block) {
  const at::Tensor& sinks = block.projected.projections.sinks;
  if (plan_.recording.layer && block.first_position() == 0 && sinks.defined()) {
    const float* logits = sinks.const_data_ptr<float>();
    block.recorded.record.sink_logits.assign(logits, logits + sinks.numel());
  }
  if (block.output.column_sums.empty()) return;
  KvCache& cache = arithmetic_->cache();
  PerRow<double> received = group_mean(block.output.column_sums, group_size());
  for (int head = 0; head < cache.n_heads(); ++head) {
    const auto& sums = received[head];
    const auto positions = cache.positions(head);
    const auto total = cache.attention_received(head);
    const auto queries = cache.attention_queries(head);
    for (std::size_t row = 0; row < sums.size(); ++row) {
      total[row] += sums[row];
      queries[row] += queries_that_see(positions[row], block.first_position(), block.n(), rules_.window);
    }
  }
  if (plan_.recording.layer && block.recorded.prompt)
    record_attention(block.recorded, positions_of(cache), block.output, std::move(received));
}

int64_t LayerRun::wanted_queries(const Block& block) const {
  int64_t most = 0;
  const auto add = [&](const EvictionRule& rule) {
    if (lender_ != nullptr || rule.policy == nullptr || !rule.due(cache(), block.end())) return;
    most = std::max(most, looked_at_queries(*rule.policy));
  };
  add(plan_.eviction);
  for (const EvictionRule& rule : open_rules_) add(rule);
  return std::min(most, block.n());
}

// As they were before they turned.
void LayerRun::count_queries(const Block& block) {
  Counts counts = plan_.counts;
  if (plan_.eviction.policy != nullptr) counts.add(plan_.eviction.policy->needs());
  if (!counts.queries || lender_ != nullptr) return;
  const WorkTime::Span eviction(eviction_time_);
  arithmetic_->count_queries(block.projected, rotation_);
}

// What has not been weighed before, by the time that an eviction is due which looks at it, or every block
// where it is recorded.
void LayerRun::weigh_values(Block& block) {
  const auto asks = [&](const EvictionRule& rule) {
    return rule.policy != nullptr && rule.policy->slots().weighs_values() && rule.due(cache(), block.end());
  };
  const bool recorded = plan_.recording.layer && plan_.recording.value_norms;
  if (lender_ != nullptr || (!recorded && !asks(plan_.eviction) && std::ranges::none_of(open_rules_, asks)))
    return;
  const WorkTime::Span eviction(eviction_time_);
  KvCache& cache = arithmetic_->cache();
  for (int head = 0; head < cache.n_heads(); ++head) {
    const RowSpan rows{std::ssize(cache.value_norms(head)), cache.n_rows(head)};
    if (rows.size() > 0)
      cache.add_value_norms(head, transformer_.value_norms(*block.weights, plan_.layer, head,
                                                           arithmetic_->cached_values(head, rows)));
    const auto of_block = cache.value_norms(head).last(recorded ? block.n() : 0);
    block.recorded.record.value_norms.insert(block.recorded.record.value_norms.end(), of_block.begin(),
                                             of_block.end());
  }
}

// A query's place is that before an eviction: what windows drop is never of the block's own.
BlockStatistics LayerRun::statistics_of(Block& block) const {
  BlockStatistics statistics{block.n(), std::move(block.output.last_row), {}};
  for (std::size_t i = 0; i < block.policy_windows.size(); ++i)
    statistics.window_sums[block.policy_windows[i]] = std::move(block.output.window_sums[i]);
  statistics.end = block.end();
  statistics.rotation = &rotation_;
  const int64_t n = wanted_queries(block);
  if (n == 0) return statistics;
  statistics.queries = arithmetic_->last_queries(n);
  const at::Tensor& sinks = block.projected.projections.sinks;
  for (int64_t head = 0; head < statistics.queries.size(0); ++head) {
    analysis::AttentionRules& rules = statistics.rules.emplace_back(rules_);
    if (sinks.defined()) rules.sink = sinks.const_data_ptr<float>()[head];
  }
  return statistics;
}

void LayerRun::evict(Block& block) {
  const WorkTime::Span eviction(eviction_time_);
  BlockStatistics statistics = statistics_of(block);
  std::vector<recording::HeadEvictions> gone(cache().n_heads());
  if (rules_.window > 0) {
    gone = drop_past_window(block, statistics);
    watched_.note_past_window(gone, block.end());
  }
  const bool too_early = plan_.oracle && block.end() < plan_.n_prompt;
  if (records_late_) {
    if (!too_early && plan_.eviction.due(cache(), block.end())) evict_unseen(block, statistics);
    return;
  }
  if (!open_rules_.empty() || plan_.eviction.with_all_layers()) {
    if (!too_early) open_block_ = std::move(statistics);
    if (lends_) lent_.back().evictions.emplace_back();
    if (plan_.recording.layer) block.recorded.record.evictions = std::move(gone);
    return;
  }
  LayerEviction evicted;
  if (block.borrowed != nullptr)
    evicted = follow_lender(*block.borrowed, arithmetic_->cache());
  else if (!too_early && plan_.eviction.due(cache(), block.end()))
    evicted = capture::evict(plan_.eviction, *arithmetic_, statistics,
                             plan_.recording.layer || lends_ || watched_.any());
  watched_.note(evicted, block.end());
  for (std::size_t head = 0; head < evicted.heads.size(); ++head) {
    gone[head].add(evicted.heads[head]);
  }
  if (lends_) lent_.back().evictions.push_back(std::move(evicted));
  if (plan_.recording.layer) block.recorded.record.evictions = std::move(gone);
}

// Nobody here waits for what went.
void LayerRun::evict_unseen(Block& block, const BlockStatistics& statistics) {
  if (auto selections = arithmetic_->evict_alike(plan_.eviction, statistics))
    block.recorded.eviction = [selections = std::move(selections)](const RowPositions& positions) {
      return eviction_of(positions, selections());
    };
  else
    block.recorded.eviction = [eviction = capture::evict(plan_.eviction, *arithmetic_, statistics)](
                                  const RowPositions&) { return eviction; };
}

// Takes the dropped rows out of what policies are to look at as well.
std::vector<recording::HeadEvictions> LayerRun::drop_past_window(const Block& block,
                                                                 BlockStatistics& statistics) {
  auto gone = capture::drop_past_window(rules_.window, block.end(), arithmetic_->cache());
  const auto group = static_cast<std::size_t>(group_size());
  for (std::size_t query = 0; query < gone.size() * group; ++query) {
    const std::size_t n = gone[query / group].position.size();
    if (!statistics.last_row.empty()) drop_front(statistics.last_row[query], n);
    for (auto& [window, sums] : statistics.window_sums) drop_front(sums[query], n);
  }
  return gone;
}

int LayerRun::group_size() const {
  return transformer_.config().n_heads / transformer_.config().heads(plan_.layer).n_kv_heads;
}

}  // namespace keyscope::capture
