// A live run in the session: begun, controlled, and looked at as it grows.

#include <utility>

#include "app/session/session.hpp"

namespace keyscope::session {
namespace {

using recording::RecordingInfo;

bool grew(const RecordingInfo& before, const RecordingInfo& now) {
  if (before.runs.size() != now.runs.size() || before.complete != now.complete) return true;
  for (std::size_t run = 0; run < now.runs.size(); ++run)
    if (before.runs[run].blocks_done != now.runs[run].blocks_done ||
        before.runs[run].generated.size() != now.runs[run].generated.size())
      return true;
  return false;
}

// The run that blocks are arriving for: the last one that has any.
int newest_run(const RecordingInfo& info) {
  int newest = 0;
  for (std::size_t run = 0; run < info.runs.size(); ++run)
    if (info.runs[run].blocks_done > 0) newest = static_cast<int>(run);
  return newest;
}

}  // namespace

void Session::start_live(LiveCapture capture, const SelectionRequest& request,
                         const std::filesystem::path& out) {
  if (live_ && live_->status().going_on()) {
    state_.notice = {"A run is going on; cancel it first.", true};
    return;
  }
  const std::size_t n_earlier = state_.earlier.size();
  close_document();
  if (state_.earlier.size() > n_earlier)
    state_.notice = {"The run before is kept in memory: Ctrl+P, Earlier run.", false};
  live_request_ = request;
  live_ = std::make_unique<LiveRunner>(std::move(capture), wake_);
  state_.recording = live_->recording();
  state_.path = out.string();
  // Nothing yet: the first look at it is refresh_live's, which selects as well. A capture may have ended
  // before this line, and would not grow any more.
  state_.info = std::make_shared<const recording::RecordingInfo>();
  state_.following = true;
}

void Session::pause_live() {
  if (live_) live_->pause();
}

void Session::resume_live() {
  if (live_) live_->resume();
}

void Session::step_live() {
  if (live_) live_->step();
}

void Session::cancel_live() {
  if (live_) live_->cancel();
}

std::optional<LiveStatus> Session::live_status() const {
  if (!live_ || state_.recording != live_->recording()) return std::nullopt;
  return live_->status();
}

void Session::refresh_live() {
  if (!live_ || state_.recording != live_->recording()) return;
  auto now = state_.recording->info();
  if (state_.info && !grew(*state_.info, *now)) return;
  const bool first = !state_.loaded();
  state_.info = std::move(now);
  if (!state_.loaded()) return;
  if (first) select_as_asked(live_request_);
  if (state_.following) {
    const int before = std::exchange(state_.selection.run, newest_run(*state_.info));
    state_.beside = after_selecting(std::move(state_.beside), before, state_.selection.run);
    state_.selection.block = state_.run().blocks_done - 1;
  }
  state_.selection = clamp_selection(*state_.info, state_.selection);
  want_points();
  want_figure();
  want_measures();
}

}  // namespace keyscope::session
