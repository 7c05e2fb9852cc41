#include "app/commands/progress.hpp"

#include <cmath>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "app/session/live_text.hpp"

namespace keyscope::commands {
namespace {

constexpr int kBarWidth = 24;
constexpr auto kRedrawInterval = std::chrono::milliseconds(100);

std::string draw_bar(double share) {
  const int filled = static_cast<int>(std::lround(share * kBarWidth));
  std::string bar;
  for (int i = 0; i < kBarWidth; ++i) bar += i < filled ? "━" : "─";
  return bar;
}

}  // namespace

Progress::Progress(std::string unit, bool quiet)
    : unit_(std::move(unit)), visible_(!quiet && isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() { clear(); }

void Progress::update(std::int64_t done, std::int64_t total, std::string_view label) {
  if (!visible_ || total <= 0) return;
  std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  if (done < total && now - last_drawn_ < kRedrawInterval) return;
  last_drawn_ = now;
  const double elapsed = std::chrono::duration<double>(now - started_).count();
  const double rate = elapsed > 0 ? static_cast<double>(done) / elapsed : 0;
  const double share = static_cast<double>(done) / static_cast<double>(total);
  const std::string left = rate > 0
                               ? session::duration_text(static_cast<double>(total - done) / rate) + " left"
                               : std::string("…");
  fmt::print(stderr, "\r\033[K{} {:3.0f} %  {}/{} {}  {:.0f}/s  {}  {}", draw_bar(share), 100 * share, done,
             total, unit_, rate, left, label);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::clear() {
  std::lock_guard lock(mutex_);
  if (!drawn_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace keyscope::commands
