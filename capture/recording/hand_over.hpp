#pragma once

#include "capture/recording/recording.hpp"

namespace keyscope::recording {

// Hands a recording to a sink as the capture did that it is of: the writer's file then holds the same, bit
// for bit where rows are stored as float32. Attention is handed over in sums, once a row. Of what was cut
// short the blocks that there are, and that it was.
//   throws InvalidInput where it was cut short and went layer by layer; what the recording and the sink throw
//   progress: told how many blocks of how many are handed over; what it throws ends it; may be empty
void hand_over(const Recording& recording, RecordSink& sink, const OpenProgress& progress = {});

}  // namespace keyscope::recording
