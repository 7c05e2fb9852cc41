#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "app/measures/evidence_loss.hpp"
#include "app/measures/what_if.hpp"
#include "app/session/head_map.hpp"
#include "app/session/head_points.hpp"
#include "app/session/inbox.hpp"
#include "app/session/keyspace_view.hpp"
#include "app/session/made_figures.hpp"
#include "app/session/remembered.hpp"
#include "app/session/run_tiles.hpp"
#include "app/session/selection.hpp"
#include "app/session/shown_figure.hpp"
#include "app/session/tokens.hpp"
#include "base/jobs.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::capture {
class CaptureControl;
}  // namespace keyscope::capture

namespace keyscope::session {

class LiveRunner;
struct LiveStatus;

// A live run that was left, and lives in memory only.
struct EarlierRun {
  std::shared_ptr<const recording::Recording> recording;
  std::string name;  // "demo_model: none, keydiff"
};

// Everything the panels draw from. Only `Session` changes it.
struct SessionState {
  std::shared_ptr<const recording::Recording> recording;  // null: nothing is open
  std::shared_ptr<const recording::RecordingInfo> info;
  std::string path;  // of the recording's file; empty: it is kept in memory only
  std::shared_ptr<const figures::FigureFile> figure_file;  // shown instead of a recording
  std::string figure_path;
  std::size_t figure = 0;  // the selected one
  // What the file holds, as `open` takes it, where that are several: of a merged study its recordings and its
  // figures. And which of them is shown.
  std::vector<std::string> documents;
  std::size_t document = 0;
  // Of every run where it first evicted what the right answer stands on; and what that is, none where it is
  // not known.
  std::vector<std::optional<measures::EvidenceLoss>> evidence_losses;
  TokenSet evidence;
  Selection selection;
  bool grows = false;      // a live run writes blocks now: it is neither paused nor at its end
  bool following = false;  // live: the selection moves to every new block
  bool playing = false;
  std::size_t measure = 0;  // index into measure_choices()
  int reference = -1;       // the run that others are compared with on the map of heads; -1: none
  HeadMap map;

  std::map<HeadKey, MeasuredHead> measured;
  std::string measures_error;

  // The view that was looked at last: what is exported and what a copied command shows. Those that can be
  // seen, it among them; and those that are open, as tabs that others may cover.
  std::string view{kKeyspaceView};
  std::vector<std::string> visible{std::string(kKeyspaceView)};
  Arrangement arrangement = usual_arrangement();
  int arranged = 0;  // how often the arrangement was replaced, by one that is remembered or was chosen
  figures::KeyspaceLook look;  // how the key space is shown
  FigureSettings figure_settings;

  // Runs beside the selected one, ascending, and those that could be.
  std::vector<RunId> beside;
  std::vector<RunChoice> choices;
  // What is shown of the selected run, and while runs stand side by side of each of them, in the order of
  // their ids. Never empty: while nothing is open there is nothing in the only one.
  std::vector<RunTile> tiles{RunTile{.selected = true}};

  std::optional<std::int64_t> hovered;  // token positions
  std::optional<std::int64_t> locked;
  std::shared_ptr<const TokenSet> tokens;  // selected in the key space, never empty; null: none are

  // Of the held token; while it is made (or made again of a run that went on), `making_story` is true.
  MadeStory story;
  bool making_story = false;

  // Of the selected run and the one that it is compared with, while something shows it.
  MadeDifference difference;
  bool compares_tokens = false;  // the text is coloured by it

  // What a policy would keep at a budget, as one more run of the recording, its last; and how that goes with
  // the budget in the selected head.
  std::optional<measures::WhatIf> what_if;
  measures::BudgetCurve budget_curve;
  std::string usual_what_if() const;  // the policy to begin with: the first that evicts

  // What the screen shows of the panels of the views that can be seen, the selected run's; and the picture
  // that would be exported, while somebody wants to see it.
  std::map<std::string, std::vector<ShownPanel>, std::less<>> shown_panels;
  std::shared_ptr<const Preview> preview;  // null: none was made

  std::string opening;                          // path that is being opened
  std::vector<std::shared_ptr<JobWatch>> jobs;  // what is opened, made and exported, in the order of asking
  std::vector<EarlierRun> earlier;
  std::string open_error;  // what went wrong with the last one
  Notice notice;           // the status bar's last message

  const recording::RunInfo& run() const { return info->runs[selection.run]; }
  bool loaded() const { return recording && info && !info->runs.empty() && !info->layers.empty(); }
  MapChoice map_choice() const;  // of `measure` and `reference`, in the selected run
  int other_run() const;         // that the selected one is compared with; -1: there is none
  HeadKey head() const { return {selection.run, selection.layer, selection.kv_head}; }
  bool comparing(std::string_view in) const;                 // runs stand side by side in this view
  std::vector<RunTile> tiles_of(std::string_view in) const;  // what the view shows: of one run or of several
  const RunTile& selected() const;                           // the selected run's tile
  // The token that the token panel is about: the hovered one, else the locked one.
  std::optional<std::int64_t> token() const { return hovered ? hovered : locked; }
};

// What is loaded, selected and running. Intents and `drain` belong to one thread (the window's) and never
// wait for anything; workers read, measure and run the model, and their results come in by `drain`.
class Session {
 public:
  // `wake` is called from worker threads when there is something to drain.
  explicit Session(std::function<void()> wake);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const SessionState& state() const { return state_; }

  // Takes in what workers have finished. Returns whether anything that is shown has changed.
  bool drain();

  // Whether workers still owe results.
  bool busy() const;
  // Whether something that is seen is among them: what panels show later of other heads is not.
  bool owes_picture() const;

  // Opens a recording or a figure file; what is open stays until the new one has arrived.
  //   request: what it asks for replaces the selection that is remembered of the recording
  void open(const std::filesystem::path& path, const SelectionRequest& request = {}, Keep keep = {});
  void show(std::shared_ptr<const recording::Recording> recording, const SelectionRequest& request = {});

  void open_document(std::ptrdiff_t by);  // the one before or after of the file's documents, round and round

  // From now on recordings open as they were left. Without this nothing is read or written.
  //   folder: where it is kept
  void remember_in(std::filesystem::path folder) { memory_ = std::move(folder); }
  // Keeps how the recording is looked at now; done by itself when another one is opened. Waits for the disk.
  void remember() const;

  // Shows a live run that was left; the one that is shown now is kept likewise.
  void show_earlier(std::size_t earlier);

  void select_figure(std::int64_t figure);
  void select_run(int run);
  void select_head(int layer, int kv_head);
  void select_typed(const SelectionRequest& request);  // layer, KV head and block, as far as they are given
  void move_layer(int by);                             // to the next recorded layer, up or down
  void move_kv_head(int by);
  void set_block(std::int64_t block);
  void step_block(std::int64_t by);
  void show_first_block() { set_block(0); }
  void show_last_block();
  void show_evidence_loss();  // of the selected run: its head, its block, and all of the evidence selected
  void toggle_play();
  // While playing: the next block, or the end of playing at the last one.
  void play_on();
  void choose_measure(std::size_t measure);
  void choose_reference(int run);     // -1: compare with none
  void compare_tokens(bool compare);  // whether the text is coloured by what both runs keep
  // Shows a run beside the selected one, or no longer; says why where it cannot be.
  void toggle_beside(RunId id);
  void choose_view(std::string_view name);            // one of view_choices(); others are left alone
  void close_view(std::string_view name);             // unless it is the only one that is open
  void show_views(std::vector<std::string> visible);  // those that can be seen now
  void arrange(Arrangement arrangement);              // another one from now on
  void note_arrangement(std::string docking, std::vector<std::string> closed);  // as it is now
  void set_figure_settings(const FigureSettings& settings);
  // From now on the recording's last run is what this would keep, and it is selected.
  void ask_what_if(const measures::WhatIf& what_if);
  void want_budget_curve(const std::string& policy);  // of the selected head
  void choose_look(const figures::KeyspaceLook& look);

  void hover(std::optional<std::int64_t> position);
  void lock(std::optional<std::int64_t> position);
  // None: nothing is selected any more.
  //   settled: false while they are still being chosen, which is no step to go back to
  void select_tokens(TokenSet tokens, bool settled = true);
  void select_neighbours();  // the keys of this head that are most like the held token's, by cosine
  void release();            // Esc: unlocks, drops the selected tokens, stops playing, clears messages
  void notify(Notice notice) { state_.notice = std::move(notice); }

  //   capture: a LiveCapture; out: the file that it records into as well; empty: none
  //   paused: whether it begins so, before the first block
  void start_live(
      std::function<void(std::span<recording::RecordSink* const>, capture::CaptureControl&)> capture,
      const SelectionRequest& request = {}, const std::filesystem::path& out = {}, bool paused = false);
  LiveRunner* live() { return live_.get(); }      // to pause, step, cancel it; null: none was started
  std::optional<LiveStatus> live_status() const;  // empty: no live run was started

  // Back to what was looked at before, and forth again.
  void undo();
  void redo();

  // Writes the view that is shown, as session::export_view does. Notices say how it ended.
  void export_view(const std::filesystem::path& path, const ExportChoice& choice = {});
  // A picture of what that would draw, in at most so many pixels. The last one asked for is made.
  //   returns the number that the preview will have
  int want_preview(const ExportChoice& choice, int width, int height);
  // Writes the live run that is open, all of it, as a capture would have: it then lies in that file. Of one
  // that was cancelled or failed the blocks that there are.
  //   replace: whether an existing file may be replaced
  void save_recording(const std::filesystem::path& path, bool replace);
  std::string_view save_refusal() const;  // why there is nothing to save; empty where there is
  std::string save_refusal(const std::filesystem::path& path, bool replace) const;  // why not there
  void note_shown(std::string_view view, std::vector<ShownPanel> panels);

  // Calls off what is being opened, made and exported: what is open stays, and no file is left behind.
  void cancel_jobs();

 private:
  void close_document();
  void note_documents(std::vector<std::string> documents, const std::string& shown);
  void forget_job(const std::shared_ptr<const JobWatch>& job);
  void stop_opening();
  void stop_making();
  void keep_live_run();
  void select_first(const Opened& result);
  bool select_evidence_loss();  // of the selected run, else of the first that has one
  std::optional<RememberedView> view_to_remember() const;
  void refresh_live();
  void select(Selection selection);
  void open_view(std::string_view name);
  void select_as_asked(const SelectionRequest& request);
  void note_snapshot();
  //   otherwise: the notice where there is no such snapshot
  void go_to(const std::optional<SelectionHistory::Snapshot>& snapshot, const char* otherwise);
  void list_choices();
  ShownView shown_view(const ExportChoice& choice) const;
  void set_beside_by_name(const std::vector<std::string>& names);
  void want_shown();
  void arrange_tiles();
  void want_tile(RunTile& tile);
  void want_points(RunTile& tile);
  void read_points(const RunTile& tile, const HeadKey& head, std::shared_ptr<const HeadPoints> earlier);
  void settle_points(const RunTile& tile);
  void want_picture(RunTile& tile);
  figures::KeyspaceLook look_of(const RunTile& tile) const;
  void want_figure(RunTile& tile, const std::string& view);
  bool is_visible(std::string_view view) const;
  void want_story();
  void want_difference();
  void want_measures();
  struct HeadTask;
  std::vector<HeadTask> unmeasured(int run, std::int64_t n_tokens, measures::Parts parts) const;
  void want_map();
  void make_map();
  void take(Opened&& result);
  void take(FiguresOpened&& result);
  void take(PointsRead&& result);
  void take(PointsFailed&& result);
  void take(PictureMade&& result);
  void take(HeadMeasured&& result);
  void take(FigureMade&& result);
  void take(StoryMade&& result);
  void take(DifferenceMade&& result);
  void take(CurveMade&& result);
  void take(PreviewMade&& result);
  void take(MeasuresFailed&& result);
  void take(OpenFailed&& result);
  void take(Saved&& result);
  void take(Exported&& result);
  void take(Notice&& result);

  SessionState state_;
  std::shared_ptr<Inbox> inbox_;
  std::shared_ptr<BasisCache> bases_;  // of this document
  PointsCache points_{std::size_t{768} << 20U};
  MadeFigures figures_{std::size_t{256} << 20U};
  SelectionHistory history_;
  // What workers were last asked for on behalf of a tile, and are at or will be.
  struct Asked {
    std::optional<std::pair<HeadKey, std::int64_t>> points;  // and of how many tokens
    std::string points_error;                                // why they cannot be read
    std::shared_ptr<const HeadPoints> settled;               // the sketch
    std::optional<PictureKey> picture;
    std::map<std::string, FigureKey, std::less<>> figures;
  };
  struct TileWork {
    std::shared_ptr<QueryCache> queries = std::make_shared<QueryCache>();  // used on the reader's thread
    Asked asked;
  };
  std::map<RunId, TileWork> work_;  // of every tile
  SelectionRequest live_request_;
  std::filesystem::path memory_;
  int document_ = 0;
  std::shared_ptr<JobWatch> opening_job_;                         // null: nothing is opened
  std::map<std::string, std::shared_ptr<JobWatch>> figure_jobs_;  // the last of each kind
  // What the measurer was last asked for: runs, the selected one first, with their tokens, and what the map
  // is made of.
  struct Measuring {
    std::vector<std::pair<int, std::int64_t>> runs;
    measures::Parts of_map{};
  };
  Measuring measuring_;
  bool map_is_old_ = false;
  std::shared_ptr<std::atomic<bool>> stop_measuring_;
  // Whether the measurer has sent what the map is made of.
  std::shared_ptr<std::atomic<bool>> map_measured_ = std::make_shared<std::atomic<bool>>(false);
  std::optional<StoryKey> story_asked_;  // that its maker is at, or will be
  std::shared_ptr<std::atomic<bool>> stop_story_;
  std::optional<DifferenceKey> difference_asked_;
  int previews_asked_ = 0;
  std::shared_ptr<const recording::Recording> base_;  // of what is asked; null: nothing is
  std::tuple<std::string, int, int> curve_asked_;     // policy, layer, KV head
  std::shared_ptr<std::atomic<bool>> stop_difference_;
  std::function<void()> wake_;
  std::unique_ptr<LiveRunner> live_;
  // Last, so that their threads end before what they use.
  JobQueue reader_{JobQueue::Priority::kNormal};
  JobQueue settler_{JobQueue::Priority::kLow};
  JobQueue figure_maker_{JobQueue::Priority::kLow};
  JobQueue story_maker_{JobQueue::Priority::kLow};
  JobQueue measurer_{JobQueue::Priority::kLow};
};

}  // namespace keyscope::session
