// Eviction where the rows lie: nothing of them comes to the host but which stay, and by what the others go.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/xlogy.h>
#include <ATen/ops/zeros.h>

#include "capture/inference/aten_arithmetic.hpp"
#include "capture/inference/eviction.hpp"
#include "capture/inference/tensor_policy.hpp"

namespace keyscope::capture {
namespace {

// The last `window` of a block's queries, of KV heads first, …, first + n - 1: (n, group, w, head_dim).
at::Tensor last_queries_of(const BlockStatistics& block, std::int64_t first, std::int64_t n,
                           std::int64_t group, std::int64_t window) {
  const std::int64_t n_queries = block.queries.size(1), w = std::min(window, n_queries);
  return block.queries.narrow(0, first * group, n * group)
      .narrow(1, n_queries - w, w)
      .unflatten(0, {n, group});
}

// What is known of each head's rows on the host, to where these lie: (n, n_rows).
template <typename T, typename Entries>
at::Tensor brought(int n, std::int64_t n_rows, const at::Device& device, const Entries& entries) {
  const at::Tensor rows =
      at::empty({n, n_rows}, at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value));
  for (int i = 0; i < n; ++i) std::ranges::copy(entries(i), rows.mutable_data_ptr<T>() + i * n_rows);
  return rows.to(device);
}

// What a policy looks at in a layer.
class TensorView {
 public:
  TensorView(const EvictionRule& rule, const TensorPolicy& policy, AtenLayer& layer,
             const BlockStatistics& block, const SideStream& stream)
      : rule_(rule),
        policy_(policy),
        stream_(stream),
        needs_(rule.policy->needs()),
        cache_(layer.cache()),
        block_(block),
        moments_(layer.tensor_moments()),
        attention_(policy_attention(needs_, cache_.n_heads(), block)),
        keys_(layer.cached_tensor(RowPart::kKeys)),
        values_(needs_.values ? layer.cached_tensor(RowPart::kValues) : at::Tensor()) {}

  // Of heads first, …, first + n - 1, which have as many rows and the same budget.
  TensorSelection select(int first, int n) const {
    const TensorPolicyInput input = this->input(first, n);
    return {policy_.score(input), policy_.forced(input), input.budget, stream_};
  }

  // The same heads' scores and forced rows, on the host.
  void rank(int first, int n, LayerRanks& ranks) const {
    const TensorPolicyInput input = this->input(first, n);
    const std::int64_t n_rows = input.n_rows();
    const at::Tensor scores = policy_.score(input).to(at::kCPU).contiguous();
    at::Tensor forced = policy_.forced(input);
    if (forced.defined()) forced = forced.to(at::kCPU, at::kByte).contiguous();
    for (int i = 0; i < n; ++i) {
      const auto* of_head = scores.const_data_ptr<double>() + i * n_rows;
      ranks.scores[first + i].assign(of_head, of_head + n_rows);
      auto& marks = ranks.forced[first + i];
      if (forced.defined())
        marks.assign(forced.const_data_ptr<std::uint8_t>() + i * n_rows,
                     forced.const_data_ptr<std::uint8_t>() + (i + 1) * n_rows);
      else
        marks.assign(n_rows, 0);
    }
  }

 private:
  TensorPolicyInput input(int first, int n) const {
    const std::int64_t n_rows = cache_.n_rows(first);
    const auto rows_of = [&](const at::Tensor& all) { return all.narrow(0, first, n).narrow(1, 0, n_rows); };
    TensorPolicyInput input{.budget = rule_.budgets[first], .layer = rule_.layer, .first_head = first};
    input.keys = rows_of(keys_);
    if (needs_.values) input.values = rows_of(values_);
    const auto of_heads = [&]<typename T>(T, const auto& entries) {
      return brought<T>(n, n_rows, keys_.device(), [&](int i) { return entries(first + i); });
    };
    if (policy_.reads_positions() || needs_.window_weights > 0)
      input.positions = of_heads(std::int64_t{}, [&](int head) { return cache_.positions(head); });
    if (needs_.last_row_group)
      input.last_row_group =
          of_heads(float{}, [&](int head) { return std::span(attention_.last_row_group[head]); });
    if (needs_.last_row_layer)
      input.last_row_layer = brought<float>(1, n_rows, keys_.device(),
                                            [&](int) { return std::span(attention_.last_row_layer); })[0];
    if (needs_.attention_received) {
      input.attention_received =
          of_heads(double{}, [&](int head) { return cache_.attention_received(head); });
      input.attention_queries =
          of_heads(std::int64_t{}, [&](int head) { return cache_.attention_queries(head); });
    }
    if (needs_.window > 0)
      input.window_sums =
          of_heads(float{}, [&](int head) { return std::span(attention_.window_sums[head]); });
    add_queries(first, n, input);
    return input;
  }

  // Of the heads' groups what the policy asks for.
  void add_queries(int first, int n, TensorPolicyInput& input) const {
    input.rotation = block_.rotation;
    input.end = block_.end;
    input.n_new_rows = std::min(block_.n_queries, input.n_rows());
    if (!needs_.queries()) return;
    const std::int64_t n_query_heads =
        block_.queries.defined() ? block_.queries.size(0) : moments_.sum.size(0);
    const std::int64_t group = n_query_heads / cache_.n_heads();
    input.group_size = static_cast<int>(group);
    if (needs_.query_moments) input.moments = moments_.of_heads(first, n, group);
    if (needs_.window_queries > 0)
      input.window_queries = last_queries_of(block_, first, n, group, needs_.window_queries);
    if (needs_.window_weights > 0)
      input.window_weights = weights_there(
          last_queries_of(block_, first, n, group, needs_.window_weights), block_.end,
          std::span(block_.rules).subspan(first * group, n * group), input.keys, input.positions);
  }

  const EvictionRule& rule_;
  const TensorPolicy& policy_;
  const SideStream& stream_;
  const analysis::PolicyNeeds needs_;
  KvCache& cache_;
  const BlockStatistics& block_;
  const TensorMoments& moments_;
  PolicyAttention attention_;
  at::Tensor keys_, values_;
};

// Whether two heads hold as many rows and are cut to as many.
bool alike(const EvictionRule& rule, const KvCache& cache, int a, int b) {
  return cache.n_rows(a) == cache.n_rows(b) && rule.budgets[a] == rule.budgets[b];
}

// Of heads next to each other that are alike: work(first, n).
template <typename Work>
void by_alike_heads(const EvictionRule& rule, const KvCache& cache, const std::vector<int>& heads,
                    const Work& work) {
  for (std::size_t first = 0; first < heads.size();) {
    std::size_t end = first + 1;
    while (end < heads.size() && heads[end] == heads[end - 1] + 1 &&
           alike(rule, cache, heads[end - 1], heads[end]))
      ++end;
    work(heads[first], static_cast<int>(end - first));
    first = end;
  }
}

RetainedRows retained_rows(TensorSelection& selection) {
  RetainedRows rows;
  for (const analysis::Selection& of_head : selection.on_host()) rows.push_back(of_head.retained);
  return rows;
}

}  // namespace

std::optional<LayerEviction> AtenLayer::evict(const EvictionRule& rule, const BlockStatistics& block,
                                              bool told) {
  if (policy_on_tensors(rule) == nullptr || !rule.policy->slots().neutral()) return std::nullopt;
  if (!told && evict_alike(rule, block) != nullptr) return LayerEviction{};
  const std::vector<int> heads = heads_to_evict(rule, cache_);
  const TensorView view(rule, *on_tensors_, *this, block, side_stream_);
  std::vector<TensorSelection> selections;
  by_alike_heads(rule, cache_, heads, [&](int first, int n) { selections.push_back(view.select(first, n)); });
  const at::Tensor retained = selections.front().retained();
  std::vector<analysis::Selection> on_host;
  for (TensorSelection& selection : selections)
    std::ranges::copy(selection.on_host(), std::back_inserter(on_host));
  LayerEviction eviction = eviction_of(positions_of(cache_), heads, std::move(on_host));
  if (selections.size() == 1 && std::ssize(heads) == cache_.n_heads())
    cache_.retain_there(retained, [rows = eviction.retained] { return rows; });
  else
    cache_.retain(eviction.retained);
  return eviction;
}

AtenLayer::LateSelections AtenLayer::evict_alike(const EvictionRule& rule, const BlockStatistics& block) {
  if (policy_on_tensors(rule) == nullptr || !rule.policy->slots().neutral()) return nullptr;
  const int n_heads = cache_.n_heads();
  for (int head = 0; head < n_heads; ++head)
    if (cache_.n_rows(head) <= rule.budgets[head] || !alike(rule, cache_, 0, head)) return nullptr;
  const TensorView view(rule, *on_tensors_, *this, block, side_stream_);
  const auto selection = std::make_shared<TensorSelection>(view.select(0, n_heads));
  cache_.retain_there(selection->retained(), [selection] { return retained_rows(*selection); });
  return [selection] { return selection->on_host(); };
}

std::optional<LayerRanks> AtenLayer::rank(const EvictionRule& rule, const BlockStatistics& block) {
  if (policy_on_tensors(rule) == nullptr) return std::nullopt;
  const auto n_heads = static_cast<std::size_t>(cache_.n_heads());
  LayerRanks ranks{std::vector<std::vector<double>>(n_heads),
                   std::vector<std::vector<std::uint8_t>>(n_heads)};
  std::vector<int> heads(n_heads);
  std::iota(heads.begin(), heads.end(), 0);
  const TensorView view(rule, *on_tensors_, *this, block, side_stream_);
  by_alike_heads(rule, cache_, heads, [&](int first, int n) { view.rank(first, n, ranks); });
  return ranks;
}

std::optional<analysis::LayerPreference> AtenLayer::preference(const BlockStatistics& block) {
  const std::int64_t group = block.queries.size(0) / cache_.n_heads();
  const at::Tensor keys = cached_tensor(RowPart::kKeys);
  at::Tensor sums = at::zeros({2}, keys.options().dtype(at::kDouble));
  const auto add = [&](int first, int n) {
    const std::int64_t n_rows = cache_.n_rows(first);
    const at::Tensor positions =
        brought<std::int64_t>(n, n_rows, keys.device(), [&](int i) { return cache_.positions(first + i); });
    const at::Tensor weights =
        weights_there(last_queries_of(block, first, n, group, analysis::kCakeWindow), block.end,
                      std::span(block.rules).subspan(first * group, n * group),
                      keys.narrow(0, first, n).narrow(1, 0, n_rows), positions);
    const at::Tensor mean = weights.mean(2, true);
    sums += at::stack({-at::xlogy(mean, mean).sum(), (weights - mean).square_().sum() / weights.size(2)});
  };
  for (int first = 0; first < cache_.n_heads();) {  // heads that hold as many rows
    int end = first + 1;
    while (end < cache_.n_heads() && cache_.n_rows(end) == cache_.n_rows(first)) ++end;
    add(first, end - first);
    first = end;
  }
  const at::Tensor told = sums.to(at::kCPU);
  const auto* numbers = told.const_data_ptr<double>();
  return analysis::LayerPreference{numbers[0], numbers[1]};
}

const TensorPolicy* AtenLayer::policy_on_tensors(const EvictionRule& rule) {
  if (policy_ != rule.policy) on_tensors_ = tensor_policy(*(policy_ = rule.policy));
  return on_tensors_.get();
}

}  // namespace keyscope::capture
