#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "capture/recording/recording.hpp"

namespace keyscope::session {

// Which run: of the open recording, or of a live run of this sitting that was left. In the order in which
// runs stand beside each other.
struct RunId {
  int source = 0;  // 0: the open recording; n: the n-th of the earlier ones
  int run = 0;

  auto operator<=>(const RunId&) const = default;
};

// How many runs can stand beside the selected one.
inline constexpr std::size_t kMostBeside = 3;

// A run that may stand beside the selected one.
struct RunChoice {
  RunId id;
  std::string name;     // "keydiff"
  std::string refusal;  // why it cannot be compared at this head: "no layer 3"; empty: it can
  bool operator==(const RunChoice&) const = default;
};

using RecordingInfoPtr = std::shared_ptr<const recording::RecordingInfo>;

// All runs that there are: those of the open recording, then those of the earlier ones.
//   info: of the open recording; earlier: what the earlier ones hold now
std::vector<RunChoice> run_choices(const recording::RecordingInfo& info,
                                   const std::vector<RecordingInfoPtr>& earlier, int layer, int kv_head);

// Why a recording's runs cannot be compared with those of another one at a head: another model or prompt, or
// a layer or head without rows. Empty where they can.
std::string comparison_refusal(const recording::RecordingInfo& info, const recording::RecordingInfo& other,
                               int layer, int kv_head);

// The block at whose end `run` had seen as many tokens as `of` had by the end of its `block`; where it has
// none that long, the last one that it has, and where blocks are of another size, the first that had seen
// them all. -1 without blocks.
std::int64_t matching_block(const recording::RunInfo& of, std::int64_t block, const recording::RunInfo& run);

// The runs beside the selected one after it changed: what stood beside and is selected now gives its place to
// what was selected before, so that the same runs stay in sight.
std::vector<RunId> after_selecting(std::vector<RunId> beside, int before, int selected);

}  // namespace keyscope::session
