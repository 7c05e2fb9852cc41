#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "analysis/policies/policy.hpp"
#include "analysis/policies/row_selection.hpp"
#include "capture/inference/tensor_parts.hpp"
#include "capture/model/device_work.hpp"

namespace keyscope::capture {

// What analysis::PolicyInput gives of one head, of `h` heads of a layer that hold `n` rows each: tensors on
// the device where the rows lie. What a policy does not ask for is undefined.
struct TensorPolicyInput {
  std::int64_t budget = 0;             // rows that will be kept of each
  int layer = 0, first_head = 0;       // which heads they are: first_head, first_head + 1, …
  at::Tensor keys = {}, values = {};   // (h, n, head_dim)
  at::Tensor positions = {};           // (h, n) int64, for a policy that `reads_positions` or weights
  at::Tensor last_row_group = {};      // (h, n) float32
  at::Tensor last_row_layer = {};      // (n) float32
  at::Tensor attention_received = {};  // (h, n) float64
  at::Tensor attention_queries = {};   // (h, n) int64
  at::Tensor window_sums = {};         // (h, n) float32
  std::int64_t n_new_rows = 0;
  std::int64_t end = 0;            // of the positions
  at::Tensor window_queries = {};  // (h, G, w, head_dim)
  at::Tensor window_weights = {};  // (h, G, w, n) float64
  TensorMoments moments = {};      // (h, G, …)
  const analysis::Rotation* rotation = nullptr;
  int group_size = 1;

  std::int64_t n_heads() const { return keys.size(0); }
  std::int64_t n_rows() const { return keys.size(1); }
};

// A policy of the registry, as operations on tensors: what analysis::Policy of the same name and options
// does, so that no key leaves its device. Scores are within 1e-6 of those (float64 but for products of keys
// of two bytes, whose products and sums are float32). Rows that are alike score alike, but for leverage's
// last bits.
class TensorPolicy {
 public:
  TensorPolicy() = default;
  TensorPolicy(const TensorPolicy&) = delete;
  TensorPolicy& operator=(const TensorPolicy&) = delete;
  virtual ~TensorPolicy() = default;

  virtual bool reads_positions() const { return false; }
  // (h, n) float64
  virtual at::Tensor score(const TensorPolicyInput& input) const = 0;
  // (h, n) bool: rows that stay whatever they score, at most `budget` of each head; undefined: none.
  virtual at::Tensor forced(const TensorPolicyInput& /*input*/) const { return {}; }
};

// The first and the last rows of each head, as many as that at most, and no more than `budget`: (h, n) bool.
at::Tensor first_rows(const TensorPolicyInput& input, std::int64_t n_first);
at::Tensor recent_rows(const TensorPolicyInput& input, std::int64_t n_recent);

// The one that does what a policy of the registry does; null for a policy of its user's own.
std::unique_ptr<const TensorPolicy> tensor_policy(const analysis::Policy& policy);

// Of those that look at queries, at ranges of other rows, or at a file of the policy's own; null for the
// others.
std::unique_ptr<const TensorPolicy> tensor_query_policy(const analysis::Policy& policy);

// What analysis::select_rows makes of each head's scores, where they lie, and on its way to the host.
class TensorSelection {
 public:
  //   scores: (h, n) float64; forced: (h, n) bool or undefined; budget: fewer than n
  TensorSelection(const at::Tensor& scores, const at::Tensor& forced, std::int64_t budget,
                  const SideStream& stream);

  // (h, budget) int64: the rows that stay, ascending. Before on_host.
  const at::Tensor& retained() const { return retained_; }

  // Waits for it, once: from then on nothing of it lies on the device.
  //   throws InvalidInput as analysis::select_rows does
  const std::vector<analysis::Selection>& on_host();

 private:
  std::int64_t budget_;
  at::Tensor scores_, retained_;
  HostCopy told_;  // (h, 2 + n + n_evicted) int32: the scores' sum, rows that stay and that go, margins
  std::vector<analysis::Selection> here_;
};

}  // namespace keyscope::capture
