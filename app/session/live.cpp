#include "app/session/live.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "app/figures/labels.hpp"
#include "app/session/tokens.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::session {

LiveRunner::LiveRunner(LiveCapture capture, std::function<void()> wake, bool paused)
    : recording_(recording::MemoryRecording::create()), wake_(std::move(wake)) {
  control_.on_progress = [this](const capture::CaptureProgress& progress) { note_progress(progress); };
  control_.on_pause = [this] { note_pause(); };
  if (paused) pause();
  thread_ = std::thread([this, work = std::move(capture)] { run(work); });
}

LiveRunner::~LiveRunner() {
  control_.cancel();
  thread_.join();
}

// The one place where what a capture throws ends: a worker never takes the window down with it.
void LiveRunner::run(const LiveCapture& capture) {
  std::array<recording::RecordSink*, 1> sinks{recording_.get()};
  try {
    capture(sinks, control_);
    finish(LiveStage::kDone, "");
  } catch (const Cancelled&) {
    finish(LiveStage::kCancelled, "");
  } catch (const std::bad_alloc&) {
    finish(LiveStage::kFailed, "memory ran out; try fewer tokens, fewer layers or a smaller block");
  } catch (const std::exception& error) {
    finish(LiveStage::kFailed, error.what());
  }
}

void LiveRunner::note_progress(const capture::CaptureProgress& progress) {
  const auto now = std::chrono::steady_clock::now();
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    status_.progress = progress;
    status_.pace.note(progress, now, held_ || control_.paused());
    held_ = control_.paused();
    if (status_.began == std::chrono::steady_clock::time_point()) status_.began = now;
    if (status_.stage == LiveStage::kStarting)
      status_.stage = control_.paused() ? LiveStage::kPaused : LiveStage::kRunning;
    wake = now - last_wake_ >= kWakeInterval || status_.stage == LiveStage::kPaused;
    if (wake) last_wake_ = now;
  }
  if (wake && wake_) wake_();
}

void LiveRunner::note_pause() {
  {
    std::lock_guard lock(mutex_);
    status_.stop_after.reset();
    if (status_.stage == LiveStage::kRunning) status_.stage = LiveStage::kPaused;
    held_ = true;
  }
  if (wake_) wake_();
}

void LiveRunner::stop_after(std::optional<std::int64_t> position) {
  std::lock_guard lock(mutex_);
  status_.stop_after = position;
  control_.pause_after(position);
}

void LiveRunner::set_rate(double blocks_per_second) {
  std::lock_guard lock(mutex_);
  status_.rate = blocks_per_second;
  control_.set_rate(blocks_per_second);
}

void LiveRunner::finish(LiveStage stage, std::string message) {
  {
    std::lock_guard lock(mutex_);
    status_.stage = stage;
    status_.message = std::move(message);
    status_.ended = std::chrono::steady_clock::now();
  }
  if (wake_) wake_();
}

void LiveRunner::pause() {
  std::lock_guard lock(mutex_);
  if (status_.stage != LiveStage::kRunning && status_.stage != LiveStage::kStarting) return;
  control_.pause();
  held_ = true;
  status_.stage = LiveStage::kPaused;
}

void LiveRunner::resume() {
  std::lock_guard lock(mutex_);
  if (status_.stage != LiveStage::kPaused) return;
  status_.stage = LiveStage::kRunning;
  control_.resume();
}

void LiveRunner::step() {
  pause();
  std::lock_guard lock(mutex_);
  if (status_.stage == LiveStage::kPaused) control_.step();
}

void LiveRunner::cancel() {
  std::lock_guard lock(mutex_);
  if (!status_.going_on()) return;
  status_.stage = LiveStage::kStopping;
  control_.cancel();
}

LiveStatus LiveRunner::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

namespace {

constexpr double kMemorySeconds = 3;  // after which a rate counts a third of what it did

void mix(double& rate, double tokens, double seconds) {
  const double now = tokens / seconds;
  const double old_share = rate > 0 ? std::exp(-seconds / kMemorySeconds) : 0;
  rate = old_share * rate + (1 - old_share) * now;
}

}  // namespace

void LivePace::note(const capture::CaptureProgress& progress, Clock::time_point now, bool held) {
  const std::int64_t tokens = progress.tokens_done - last_tokens_;
  // Without a report before it, the capture's own clock says how long the first block took.
  const double seconds =
      last_ ? std::chrono::duration<double>(now - *last_).count() : progress.elapsed_seconds;
  last_ = now;
  last_tokens_ = progress.tokens_done;
  if (tokens <= 0) return;
  last_generated_ = tokens == 1;  // a block of the prompt is longer
  if (seconds > 0 && !held)
    mix(last_generated_ ? generation_ : prompt_, static_cast<double>(tokens), seconds);
}

LiveWork work_left(const recording::RecordingInfo& info) {
  LiveWork work;
  const std::int64_t n_prompt = info.n_prompt();
  for (const recording::RunInfo& run : info.runs) {
    if (info.complete) break;
    work.prompt_tokens += std::max<std::int64_t>(0, n_prompt - run.n_tokens);
    work.generated_tokens += run.plan.max_tokens(n_prompt) - std::max(n_prompt, run.n_tokens);
  }
  return work;
}

std::optional<double> seconds_left(const LiveWork& work, const LivePace& pace) {
  double seconds = 0;
  if (work.prompt_tokens > 0) {
    if (pace.prompt_rate() <= 0) return std::nullopt;
    seconds += static_cast<double>(work.prompt_tokens) / pace.prompt_rate();
  }
  if (work.generated_tokens > 0) {
    if (pace.generation_rate() <= 0) return std::nullopt;
    seconds += static_cast<double>(work.generated_tokens) / pace.generation_rate();
  }
  return seconds;
}

namespace {

constexpr std::int64_t kLastTokens = 6;  // of the generated text, enough to see that it makes sense

// Blocks of the selected policies go together: every run is as far as the others, give or take a block.
bool goes_together(const recording::RecordingInfo& info) {
  return info.provenance.schedule == "together" && info.runs.size() > 1;
}

// "block 5 of 16", or "token 3 of 64" once the prompt is read.
std::string place(const capture::CaptureProgress& progress, const recording::RecordingInfo& info) {
  const auto run = static_cast<std::size_t>(progress.run_index);
  if (run < info.runs.size()) {
    const recording::RunInfo& now = info.runs[run];
    const std::int64_t prompt_blocks = now.plan.n_prompt_blocks;
    if (progress.block > prompt_blocks)
      return fmt::format("generated token {} of {}", progress.block - prompt_blocks + 1,
                         now.plan.max_generated);
    return fmt::format("block {} of {}", progress.block, prompt_blocks);
  }
  return fmt::format("block {} of {}", progress.block, progress.n_blocks);
}

std::string last_words(const capture::CaptureProgress& progress, const recording::RecordingInfo& info) {
  const auto run = static_cast<std::size_t>(progress.run_index);
  if (run >= info.runs.size() || info.runs[run].generated.size() == 0) return {};
  const std::int64_t end = info.n_prompt() + info.runs[run].generated.size();
  std::string bytes;
  for (std::int64_t t = std::max(info.n_prompt(), end - kLastTokens); t < end; ++t)
    bytes += measures::token_bytes(info, progress.run_index, t);
  return figures::text_label(bytes);
}

}  // namespace

double share_done(const LiveStatus& status) {
  const auto total = static_cast<double>(std::max<std::int64_t>(1, status.progress.tokens_total));
  return std::clamp(static_cast<double>(status.progress.tokens_done) / total, 0.0, 1.0);
}

std::string describe_live(const LiveStatus& status, const recording::RecordingInfo& info) {
  const auto& progress = status.progress;
  switch (status.stage) {
    case LiveStage::kStarting:
      return "loading the model";
    case LiveStage::kStopping:
      return "stopping after this block";
    case LiveStage::kDone:
      return "all runs are done";
    case LiveStage::kCancelled:
      return "cancelled; what was recorded is kept";
    case LiveStage::kFailed:
      return "failed: " + status.message;
    case LiveStage::kRunning:
    case LiveStage::kPaused:
      break;
  }
  if (progress.run.empty())
    return info.runs.empty() ? "loading the model" : "paused before the first block: Step, or Run";
  const bool together = goes_together(info);
  std::string text =
      fmt::format("{}, {}", together ? fmt::format("{} runs together", info.runs.size()) : progress.run,
                  place(progress, info));
  if (status.stage == LiveStage::kPaused) return "paused: " + text;
  if (status.stop_after) text += fmt::format(", up to token {}", *status.stop_after);
  const double rate = status.pace.last_rate();
  if (rate > 0) text += ", " + rate_text(rate, "tokens");
  if (const auto left = seconds_left(work_left(info), status.pace))
    text += fmt::format(", {} left", duration_text(*left));
  const std::string words = together ? std::string() : last_words(progress, info);
  return words.empty() ? text : fmt::format("{}: {}", text, words);
}

}  // namespace keyscope::session
