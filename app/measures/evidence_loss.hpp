#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// The prompt's tokens that the right answer stands on, ascending, as the capture was told; none where it was
// not.
std::vector<std::int32_t> evidence_tokens(const recording::RecordingInfo& info);

// A row of the evidence that a policy evicted.
struct EvidenceLoss {
  int layer = 0, kv_head = 0;
  std::int64_t block = 0;  // at whose end it went
  std::int64_t position = 0;

  bool operator==(const EvidenceLoss&) const = default;
};

// Of every run the first, of those of one block that of the lowest layer, KV head and position; none where it
// evicted none of it. What a sliding window has passed by the prompt's end does not count. Reads the traces
// of all heads.
//   keep_on: called before each head; what it throws ends it
//   throws FileError as the recording does
std::vector<std::optional<EvidenceLoss>> first_evidence_losses(
    const recording::Recording& recording, const std::function<void()>& keep_on = [] {});

}  // namespace keyscope::measures
