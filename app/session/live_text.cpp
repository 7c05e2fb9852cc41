#include "app/session/live_text.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "app/figures/token_label.hpp"
#include "app/session/tokens.hpp"

namespace keyscope::session {
namespace {

constexpr std::int64_t kLastTokens = 6;  // of the generated text, enough to see that it makes sense

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
    bytes += token_bytes(info, progress.run_index, t);
  return figures::text_label(bytes);
}

}  // namespace

std::string duration_text(double seconds) {
  const auto s = static_cast<long long>(std::llround(std::max(0.0, seconds)));
  if (s >= 3600) return fmt::format("{} h {:02} min", s / 3600, s % 3600 / 60);
  return s >= 60 ? fmt::format("{} min {:02} s", s / 60, s % 60) : fmt::format("{} s", s);
}

std::string rate_text(double per_second, std::string_view unit) {
  return fmt::format("{:.{}f} {}/s", per_second, per_second < 10 ? 1 : 0, unit);
}

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
  std::string text = fmt::format("{}, {}", progress.run, place(progress, info));
  if (status.stage == LiveStage::kPaused) return "paused: " + text;
  const double rate = status.pace.last_rate();
  if (rate > 0) text += ", " + rate_text(rate, "tokens");
  if (const auto left = seconds_left(work_left(info), status.pace))
    text += fmt::format(", {} left", duration_text(*left));
  const std::string words = last_words(progress, info);
  return words.empty() ? text : fmt::format("{}: {}", text, words);
}

}  // namespace keyscope::session
