#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "capture/recording/recording.hpp"

namespace keyscope::session {

// A selection in the command line's words; what is left open is chosen by `resolve_selection`.
struct SelectionRequest {
  std::optional<std::string> run = std::nullopt;
  std::optional<int> layer = std::nullopt;
  std::optional<int> kv_head = std::nullopt;
  std::optional<std::int64_t> block = std::nullopt;
  std::optional<std::string> measure = std::nullopt;    // of the map of heads
  std::optional<std::string> reference = std::nullopt;  // the run that it is compared with
  std::optional<std::int64_t> token = std::nullopt;     // to be held
  std::vector<std::string> beside = {};                 // runs that stand beside it

  bool operator==(const SelectionRequest&) const = default;
};

// The one head and moment that every view shows. Run, layer and KV head were recorded.
struct Selection {
  int run = 0;
  int layer = 0;
  int kv_head = 0;
  std::int64_t block = -1;  // -1: there is no block yet

  bool operator==(const Selection&) const = default;
};

// The selection that a request means: the first evicting run (else the first), the first recorded layer and
// KV head and the end of the prompt where nothing was asked for.
//   throws UsageError naming what was asked for and what there is
Selection resolve_selection(const recording::RecordingInfo& info, const SelectionRequest& request);

// The nearest selection that exists in `info`: for a recording that grew, or another one with fewer layers or
// heads.
Selection clamp_selection(const recording::RecordingInfo& info, Selection selection);

// The run's last prompt block, or the last one done where the prompt was cut short; -1 without blocks.
std::int64_t end_of_prompt(const recording::RunInfo& run);

// `--run keydiff --layer 3 --kv-head 1 --block 7`: the options that ask for a selection.
std::string selection_options(const recording::RecordingInfo& info, const Selection& selection);

}  // namespace keyscope::session
