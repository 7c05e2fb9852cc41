#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/figures/head_measure.hpp"
#include "app/session/tokens.hpp"
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

// The one head and block that every view shows. Run, layer and KV head were recorded.
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

// What was looked at, to go back to: selection, view, held token, selected tokens and runs beside. Stepping
// through blocks is one step back, however many blocks it went through.
class SelectionHistory {
 public:
  struct Snapshot {
    Selection selection;
    std::string view;
    std::optional<std::int64_t> locked;
    std::shared_ptr<const TokenSet> tokens = nullptr;
    std::vector<RunId> beside = {};
    bool operator==(const Snapshot&) const = default;
  };

  // What is looked at from now on; what was undone before is forgotten. Without a change nothing happens.
  void note(const Snapshot& now);

  std::optional<Snapshot> undo();  // empty: there is nothing before
  std::optional<Snapshot> redo();  // empty: nothing was undone
  bool can_undo() const { return at_ > 0; }
  bool can_redo() const { return at_ + 1 < snapshots_.size(); }
  void clear();

  static constexpr std::size_t kMost = 200;  // steps that are kept

 private:
  std::vector<Snapshot> snapshots_;
  std::size_t at_ = 0;     // the one that is looked at
  bool stepping_ = false;  // the last step was another block of the same head
};

// "layer 3", "head 2", "block 7", "l3 h2 b7": numbers of the command line behind words or their first
// letters, in any order. Empty where the text is anything else.
std::optional<SelectionRequest> typed_selection(std::string_view text);

// "Layer 3, KV head 2, block 7".
std::string describe_request(const SelectionRequest& request);

// Why `request` cannot be selected with what is selected now, and what there is; empty where it can.
//   info: with runs and layers
std::string selection_refusal(const recording::RecordingInfo& info, const Selection& now,
                              const SelectionRequest& request);

// The measures that the window colours heads by: those of `figure head-map`.
using MeasureChoice = figures::HeadMeasure;

inline std::span<const MeasureChoice> measure_choices() { return figures::head_measures(); }

// The measure's place among them; 0 for an unknown id.
std::size_t measure_index(std::string_view id);

// "0.913", "−0.2", or "–" for a value that does not exist.
std::string format_measure(const MeasureChoice& choice, const std::optional<double>& value);

// "Log volume (nats)": the label with its unit.
std::string measure_label(const MeasureChoice& choice);

}  // namespace keyscope::session
