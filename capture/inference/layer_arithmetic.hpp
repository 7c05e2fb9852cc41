#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "analysis/policies/layer_budgets.hpp"
#include "analysis/policies/row_selection.hpp"
#include "analysis/policies/unrotated.hpp"
#include "base/shared_memory.hpp"
#include "capture/inference/attention.hpp"
#include "capture/inference/kv_cache.hpp"
#include "capture/model/transformer.hpp"

namespace keyscope::capture {

// A block on its way through a layer: rows [offset, offset + n) of what was projected of it and of others.
struct ProjectedBlock {
  const Projections& projections;
  std::int64_t offset;
  std::int64_t n;
  std::int64_t first_position;
};

// Rows of several heads on the host, in the model's dtype: per head (n, head_dim), contiguous, as many as
// there are. Valid until the layer's next change.
struct HostRows {
  at::ScalarType dtype;
  std::int64_t head_dim;
  std::vector<const void*> heads{};
  at::Tensor memory{};  // what they lie in, where they had to be brought

  std::int64_t row_bytes() const { return head_dim * static_cast<std::int64_t>(c10::elementSize(dtype)); }
};

// Which of a block's own rows are wanted on the host.
struct WantedRows {
  bool keys = false, values = false, queries = false;
};

// These rows of every KV head, before any is evicted, and the queries of every query head: waits until they
// have come. Null where they were not wanted.
struct ExpectedRows {
  std::function<HostRows()> keys, values, queries;
};

struct BlockStatistics;
struct EvictionRule;
struct LayerEviction;
struct LayerRanks;

// Between a layer's projections: one run's cache in that layer, rotation, attention. The schedules, what is
// recorded and who is evicted know nothing of how it is computed, nor where.
class LayerArithmetic {
 public:
  LayerArithmetic() = default;
  LayerArithmetic(const LayerArithmetic&) = delete;
  LayerArithmetic& operator=(const LayerArithmetic&) = delete;
  virtual ~LayerArithmetic() = default;

  virtual const KvCache& cache() const = 0;
  virtual KvCache& cache() = 0;

  // Appends a block's keys and values to the cache; its queries are what `attend` looks with.
  virtual void append(const ProjectedBlock& block) = 0;

  // The block's own rows: they are on their way while attention computes.
  virtual ExpectedRows expect(const WantedRows& rows) = 0;

  // Whether a block is done before the host has seen anything of it: its rows, and statistics of attention
  // that may come late, can then be waited for when others have been asked for, and likewise what
  // `evict_alike` says. Else they are there at once, and rows are gone with the layer's next change.
  virtual bool tells_late() const { return false; }

  // Attention of the block's queries over the cache.
  //   throws InvalidInput where the block's queries, keys or values hold NaN or Inf, or leaves that to
  //   `check`, or to statistics that come late
  virtual AttentionOutput attend(const AttentionWants& wants) = 0;
  //   throws InvalidInput where an earlier block's held NaN or Inf
  virtual void check() {}

  // Evicts by the rule where the rows lie, if the policy can look at them there; else nothing is done.
  //   told: whether anybody will look at what went
  virtual std::optional<LayerEviction> evict(const EvictionRule& /*rule*/, const BlockStatistics& /*block*/,
                                             bool /*told*/);
  // The same where all heads hold as many rows and are cut to as many: waits for what stays of each, and
  // goes. Null where nothing is done.
  using LateSelections = std::function<std::vector<analysis::Selection>()>;
  virtual LateSelections evict_alike(const EvictionRule& /*rule*/, const BlockStatistics& /*block*/);
  // Likewise what the rule's policy ranks the rows by, and what CAKE measures of the layer.
  virtual std::optional<LayerRanks> rank(const EvictionRule& /*rule*/, const BlockStatistics& /*block*/);
  virtual std::optional<analysis::LayerPreference> preference(const BlockStatistics& /*block*/);

  virtual HostRows cached_rows(RowPart part) const = 0;  // of every KV head all
  // Values of some rows of a KV head, where they lie: (n, head_dim). Valid until the layer's next change.
  virtual at::Tensor cached_values(int kv_head, RowSpan rows) const = 0;
  // The block's last n queries after rotation, where they lie: (n_heads, n, head_dim), the caller's own.
  virtual at::Tensor last_queries(std::int64_t n) const = 0;

  // Counts a block's queries, as they were before they turned.
  virtual void count_queries(const ProjectedBlock& block, const analysis::Rotation& rotation) = 0;
  // What was counted, per query head; none where nothing was, or where it does not lie on the host.
  virtual std::span<const analysis::QueryMoments> moments() const { return {}; }
  virtual void copy_moments(const LayerArithmetic& from) = 0;  // of another of the same kind
  virtual std::int64_t n_queries() const = 0;                  // of the block

  // Gives back what was made for the block alone: layers wait for their next one all at the same time.
  virtual void end_block() = 0;
};

// How rows are kept and rotated.
struct LayerRows {
  int layer = 0;
  std::vector<std::int64_t> capacities;  // rows of each KV head's cache
  bool cache_positions = false;          // they are rotated by their place in the cache, not by true position
  analysis::CacheFormat cache_format = {};
  std::shared_ptr<SharedMemory> memory =
      nullptr;               // where float32 rows of the host are to lie; null: anywhere
  bool heads_share = false;  // heads have one memory, for as many rows as the sum of the capacities
};

}  // namespace keyscope::capture
