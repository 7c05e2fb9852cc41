#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "analysis/policies/policy.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// What a policy would keep of a recording's prompt at a budget, asked while somebody looks at it.
struct WhatIf {
  std::string policy;  // as on the command line: "keydiff:recent=0.1"
  double share = 1;    // of the prompt's rows, in (0, 1]
  bool operator==(const WhatIf&) const = default;
};

inline constexpr const char* kWhatIfName = "what-if";

// Why it cannot be asked of a recording: there is no finished run that kept everything, or what the policy
// scores by was not recorded. Empty where it can.
std::string what_if_refusal(const recording::RecordingInfo& info, const std::string& policy);

// A recording with one more run, its last: what a policy keeps of the keys of the run `none`, block by block,
// as `replay` has it, each head made when it is first asked for. Keys, queries and values are those of
// `none`; above layer 0 a capture's would have lost what was evicted below.
class WhatIfRecording final : public recording::Recording {
 public:
  //   base: of which what_if_refusal says nothing
  WhatIfRecording(std::shared_ptr<const recording::Recording> base, const WhatIf& what_if);

  int run() const { return static_cast<int>(info_->runs.size()) - 1; }
  const std::shared_ptr<const recording::Recording>& base() const { return base_; }

  std::shared_ptr<const recording::RecordingInfo> info() const override { return info_; }
  RowMatrixF keys(int run, int layer, int kv_head, std::int64_t first, std::int64_t count) const override;
  RowMatrixF queries(int run, int layer, int query_head, std::int64_t first,
                     std::int64_t count) const override;
  RowMatrixF group_queries(int run, int layer, int kv_head, std::int64_t first,
                           std::int64_t count) const override {
    return base_->group_queries(source_of(run), layer, kv_head, first, count);
  }
  RowMatrixF values(int run, int layer, int kv_head, std::int64_t first, std::int64_t count) const override;
  recording::HeadTrace trace(int run, int layer, int kv_head) const override;
  recording::AttentionStatistics statistics(int run, int layer) const override;
  std::vector<float> sink_logits(int run, int layer) const override;
  recording::LayerRouting routing(int run, int layer) const override;
  RowMatrixF attention(int run, int layer, int query_head, std::int64_t first,
                       std::int64_t count) const override;
  RowMatrixF logits(int run) const override { return base_->logits(source_of(run)); }

 private:
  int source_of(int run) const { return run == this->run() ? full_ : run; }

  std::shared_ptr<const recording::Recording> base_;
  int full_;  // the run whose keys are replayed
  std::unique_ptr<analysis::Policy> policy_;
  std::shared_ptr<const recording::RecordingInfo> info_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<int, int>, recording::HeadTrace> traces_;
};

// One budget's outcome in one head.
struct BudgetPoint {
  double share = 0;
  double attention_kept = 0, log_volume = 0;  // NaN where it does not exist
};

// Over shares from 5 to 100 %, of one head.
struct BudgetCurve {
  std::string policy;
  int layer = -1, kv_head = -1;
  std::vector<BudgetPoint> points;
  std::string error;  // why there are none
};
BudgetCurve budget_curve(const std::shared_ptr<const recording::Recording>& base, const std::string& policy,
                         int layer, int kv_head);

}  // namespace keyscope::measures
