#pragma once

#include <memory>

#include "capture/recording/recording.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::recording {

// A recording that lies in memory: the sink of a live capture and, at the same time, what the window reads.
// Safe to read from any thread while the capture goes on.
class MemoryRecording : public RecordSink, public Recording {
 public:
  static std::shared_ptr<MemoryRecording> create();
};

}  // namespace keyscope::recording
