#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "app/figures/catalogue.hpp"
#include "app/figures/figure.hpp"
#include "app/session/head_map.hpp"
#include "app/session/head_points.hpp"
#include "app/session/selection.hpp"
#include "base/jobs.hpp"
#include "base/recently_used.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::session {

// How figures are made, where they have the choice: kept while other heads and figures are looked at.
struct FigureSettings {
  bool ranks = false;                                            // score-attention: ranks instead of values
  bool linear = false;                                           // attention: a linear colour scale
  bool retained_only = false;                                    // cosine-matrix: only the retained keys
  figures::MatrixOrder order = figures::MatrixOrder::kPosition;  // cosine-matrix, token-lives
  std::optional<figures::Reduction> reduction{};                 // of large matrices; empty: the figure's own
  std::optional<std::int64_t> token{};                           // token-lives: this one in every head
  bool operator==(const FigureSettings&) const = default;
};

// Keys that the window orders by a dendrogram: so many take half a second and 32 MiB.
inline constexpr std::int64_t kMostOrdered = 4096;

// Those that a figure understands; the others are as they are by default.
FigureSettings settings_of(std::string_view figure, const FigureSettings& settings);

void apply(const FigureSettings& settings, figures::FigureRequest& request);

// As options of `keyscope figure` and `keyscope view`: ` --ranks`.
std::string settings_options(const FigureSettings& settings);

// The views that the window draws itself; all others are figures by their registered names.
inline constexpr std::string_view kKeyspaceView = "keyspace";
inline constexpr std::string_view kTextView = "text";
inline constexpr std::string_view kDifferenceView = "difference";

// What the middle of the window can show.
struct ViewChoice {
  std::string name;   // as on the command line: of the figure, or of a view of the window's own
  std::string label;  // "Key space"
};
// All of them, those that are asked for most first: of these the first `n_view_tabs()` have a tab.
const std::vector<ViewChoice>& view_choices();
std::size_t n_view_tabs();
bool is_view(std::string_view name);
bool is_figure_view(std::string_view name);
bool has_picture(std::string_view name);  // that can be exported; the others are words
// Whether the view goes by the chosen block, and whether things in it stand for tokens.
bool shows_blocks(std::string_view view);
bool shows_tokens(std::string_view view);
// Whether the recording holds what the view shows.
bool can_show(const recording::RecordingInfo& info, std::string_view view);

// A figure and all that it depends on in one recording: equal keys mean equal figures.
struct FigureKey {
  std::string name;
  Selection selection;           // -1 where the figure is not about it
  std::int64_t blocks_done = 0;  // of all runs together, for a recording that grows
  FigureSettings settings = {};  // those that the figure understands
  MapChoice map = {};            // 0 and -1 where the figure is no map of heads
  int source = 0;                // as RunId's: whose run it is
  bool operator==(const FigureKey&) const = default;
};
//   map: from effective_choice
FigureKey figure_key(const recording::RecordingInfo& info, const Selection& selection, std::string_view name,
                     const MapChoice& map = {}, const FigureSettings& settings = {});

// The same question in the command line's words, and as its options: ` --run none --layer 3`.
figures::FigureRequest figure_request(const recording::RecordingInfo& info, const FigureKey& key);
std::string figure_options(const recording::RecordingInfo& info, const FigureKey& key);

// A figure that was made, or why it could not be.
struct MadeFigure {
  FigureKey key;
  std::shared_ptr<const figures::Figure> figure;  // null: see `error`
  std::string error;

  std::size_t bytes() const;
};

// Makes the figure that a key asks for, in as many cells as are looked at; where that fails, `error` says
// why.
//   recording: the one that the key's `source` says; info: of it, when the key was made
//   job: counts the heads that are read; once it is called off, the next read ends the figure
MadeFigure make_figure(const recording::Recording& recording, const recording::RecordingInfo& info,
                       FigureKey key, JobWatch& job);

using MadeFigures = RecentlyUsed<MadeFigure, &MadeFigure::key>;

// The heads that a figure reads one after another: those of its runs where it is about a whole recording;
// none where it is about one head, which is read at once.
//   throws as chosen_runs
std::vector<HeadKey> heads_of_figure(const recording::RecordingInfo& info,
                                     const figures::FigureRequest& request);

// Another recording, read under a watch, which counts each head when the first of it is read; once the
// job is called off every further read throws Cancelled. What is counted has been begun rather than done: a
// head too early, and where heads are read in parallel one for every thread.
class WatchedRecording final : public recording::Recording {
 public:
  //   recording, watch: outlive this; heads: those that count
  WatchedRecording(const recording::Recording& recording, const std::vector<HeadKey>& heads, JobWatch& watch);

  std::shared_ptr<const recording::RecordingInfo> info() const override { return recording_.info(); }
  RowMatrixF keys(int run, int layer, int kv_head, std::int64_t first, std::int64_t count) const override;
  RowMatrixF queries(int run, int layer, int query_head, std::int64_t first,
                     std::int64_t count) const override;
  RowMatrixF group_queries(int run, int layer, int kv_head, std::int64_t first,
                           std::int64_t count) const override;
  RowMatrixF values(int run, int layer, int kv_head, std::int64_t first, std::int64_t count) const override;
  recording::HeadTrace trace(int run, int layer, int kv_head) const override;
  recording::AttentionStatistics statistics(int run, int layer) const override;
  std::vector<float> sink_logits(int run, int layer) const override {
    return recording_.sink_logits(run, layer);
  }
  recording::LayerRouting routing(int run, int layer) const override {
    return recording_.routing(run, layer);
  }
  RowMatrixF attention(int run, int layer, int query_head, std::int64_t first,
                       std::int64_t count) const override;
  RowMatrixF logits(int run) const override;

 private:
  void note(const HeadKey& head) const;
  int kv_head_of(int layer, int query_head) const;

  const recording::Recording& recording_;
  JobWatch& watch_;
  recording::ModelInfo model_;
  std::int64_t n_heads_ = 0;
  mutable std::mutex mutex_;
  mutable std::set<HeadKey> unread_;
};

}  // namespace keyscope::session
