#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "capture/recording/records.hpp"

namespace keyscope::recording {

// A sink's guard against a capture that breaks its word: a wrong shape must not reach a file. All throw
// InvalidInput naming run, block and layer, what was found and what was expected.

// Names, counts and shapes of a plan against each other.
void check_plan(const RecordPlan& plan);

// Of a layer with experts: shapes and indices against the plan.
void check_routing(const RecordPlan& plan, const RoutingRecord& record);

// Blocks against their plan, and against what comes next in their run: under the layer schedule, in their run
// and layer until the prompt has been read.
class BlockOrder {
 public:
  explicit BlockOrder(std::shared_ptr<const RecordPlan> plan);
  void check(const BlockRecord& record) const;
  void accept(const BlockRecord& record);  // checks it, and expects what follows it

 private:
  struct Next {
    std::int64_t block = 0, token = 0;
  };
  std::size_t sequence(const BlockRecord& record, const std::string& where) const;
  void check_layers(const BlockRecord& record, bool last_block, const std::string& where) const;

  std::shared_ptr<const RecordPlan> plan_;
  std::vector<std::vector<Next>> next_;  // per run; per layer under the layer schedule
};

// Ids and offsets against each other; `what` names them in the message.
void check_text(const TokenText& text, const std::string& what);

}  // namespace keyscope::recording
