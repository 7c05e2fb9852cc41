#include "app/session/live_pace.hpp"

#include <algorithm>
#include <cmath>

namespace keyscope::session {
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

}  // namespace keyscope::session
