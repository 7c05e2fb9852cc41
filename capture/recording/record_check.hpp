#pragma once

#include "capture/recording/records.hpp"

namespace keyscope::recording {

// A sink's guard against a capture that breaks its word: a wrong shape must not reach a file. Both throw
// InvalidInput naming run, block and layer, what was found and what was expected.

// Names, counts and shapes of a plan against each other.
void check_plan(const RecordPlan& plan);

// A block against its plan, and against the block and the token that come next in its run.
void check_block(const RecordPlan& plan, const BlockRecord& record, std::int64_t next_block,
                 std::int64_t next_token);

// Ids and offsets against each other; `what` names them in the message.
void check_text(const TokenText& text, const std::string& what);

}  // namespace keyscope::recording
