#include "tests/capture/recording/counted_blocks.hpp"

#include "capture/recording/memory_recording.hpp"
#include "tests/capture/recording/recording_comparison.hpp"

namespace keyscope::recording {

void expect_holds_counted_blocks(const Recording& recording, const SyntheticCapture& capture) {
  const auto info = recording.info();
  auto memory = MemoryRecording::create();
  memory->begin(capture.plan());
  for (int run = 0; run < static_cast<int>(info->runs.size()); ++run) {
    const RunInfo& about = info->runs[static_cast<std::size_t>(run)];
    for (int b = 0; b < about.blocks_done; ++b) memory->block(capture.block(run, b));
    if (!about.top_ids.empty()) memory->prompt_done(capture.prompt_result(run));
  }
  expect_same(*memory, recording);
}

}  // namespace keyscope::recording
