#include "app/commands/console.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "app/commands/capture.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

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

void say_text(std::FILE* to, std::string_view text) {
  const std::string safe = terminal_text(text);
  std::fwrite(safe.data(), 1, safe.size(), to);  // what is lost of stdout is told at the end
}

void say_exactly(std::string_view text) {
  std::string safe;
  if (isatty(STDOUT_FILENO) != 0) text = safe = terminal_text(text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    throw FileError("standard output: could not be written");
}

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
  const std::string left =
      rate > 0 ? duration_text(static_cast<double>(total - done) / rate) + " left" : std::string("…");
  std::string one_line(label);
  std::ranges::replace(one_line, '\n', ' ');
  fmt::print(stderr, "\r\033[K{} {:3.0f} %  {}/{} {}  {:.0f}/s  {}  {}", draw_bar(share), 100 * share, done,
             total, unit_, rate, left, terminal_text(one_line));
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

capture::HashProgress hash_progress_line(bool quiet) {
  constexpr std::int64_t kMegabyte = 1'000'000;
  return [progress = std::make_shared<Progress>("MB", quiet)](std::int64_t n_hashed, std::int64_t n_bytes) {
    progress->update(n_hashed / kMegabyte, n_bytes / kMegabyte, "hashing the weights");
  };
}

namespace {

struct InterruptState {
  std::mutex mutex;
  std::function<void()> cancel;
  bool cancelling = false;
};

InterruptState& state() {
  static InterruptState instance;
  return instance;
}

void on_signal() {
  std::lock_guard lock(state().mutex);
  if (!state().cancel || state().cancelling) {
    constexpr std::string_view kSaid = "\nkeyscope: interrupted\n";  // below a line of progress
    const std::string_view said = state().cancelling ? kSaid : kSaid.substr(1);
    if (write(STDERR_FILENO, said.data(), said.size()) < 0) {
      // Nobody is there to read it.
    }
    _exit(kInterrupted);
  }
  state().cancelling = true;
  state().cancel();
}

}  // namespace

// A thread that waits for the signals may call anything; a handler could call next to nothing.
void watch_interrupts() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  state();  // constructed before the thread that uses it
  std::thread([signals] {
    for (;;) {
      int signal = 0;
      if (sigwait(&signals, &signal) == 0) on_signal();
    }
  }).detach();
}

OnInterrupt::OnInterrupt(std::function<void()> cancel) {
  std::lock_guard lock(state().mutex);
  state().cancel = std::move(cancel);
  state().cancelling = false;
}

OnInterrupt::~OnInterrupt() {
  std::lock_guard lock(state().mutex);
  state().cancel = nullptr;
}

void require_writable(const JsonTarget& target, const std::filesystem::path& out) {
  if (!target.given() || target.is_stdout()) return;
  if (!lies_in_new_folder(target.path, out)) output_path(target.path, target.replace);
}

void require_disk(const std::filesystem::path& out, std::int64_t needed, std::string_view what,
                  std::string_view advice) {
  std::error_code error;
  const auto space = std::filesystem::space(folder_of(out), error);
  if (!error && space.capacity > 0 && static_cast<std::uintmax_t>(needed) > space.available)
    throw Error(fmt::format("{}: {} needs {}, and only {} are free; {}", out.string(), what,
                            bytes_text(needed), bytes_text(static_cast<std::int64_t>(space.available)),
                            advice));
}

void require_different(std::span<const std::filesystem::path> outputs) {
  std::set<std::filesystem::path> seen;
  for (const std::filesystem::path& path : outputs)
    if (!path.empty() && !seen.insert(place_of(path)).second)
      throw UsageError(fmt::format("{}: would be written twice; choose another name", path.string()));
}

void require_different(std::initializer_list<AskedOutput> outputs) {
  std::map<std::filesystem::path, const char*> seen;
  for (const auto& [option, file] : outputs) {
    if (file.empty()) continue;
    const auto [other, is_new] = seen.emplace(place_of(file), option);
    if (!is_new)
      throw UsageError(fmt::format("{}: would be written twice, by {} and {}; choose another name",
                                   file.string(), other->second, option));
  }
}

bool lies_in_new_folder(const std::filesystem::path& file, const std::filesystem::path& out) {
  namespace fs = std::filesystem;
  return !out.empty() && !fs::exists(out) && place_of(folder_of(file) / "") == place_of(out / "");
}

void write_json(const JsonTarget& target, const nlohmann::ordered_json& json) {
  write_text(target, json_text(json, 2) + "\n");
}

void write_text(const JsonTarget& target, const std::string& text) {
  write_text(target, [&](const WriteText& write) { write(text); });
}

void write_text(const JsonTarget& target, const std::function<void(const WriteText&)>& write_all) {
  if (target.is_stdout()) {
    write_all(say_exactly);
    if (std::fflush(stdout) != 0) throw FileError("standard output: could not be written");
    return;
  }
  AtomicFile output(target.path, target.replace);
  std::ofstream file(output.part(), std::ios::binary | std::ios::trunc);
  write_all([&](std::string_view text) { file << text; });
  file.close();
  if (!file) throw FileError(fmt::format("{}: could not be written: {}", target.path, std::strerror(errno)));
  output.commit();
}

recording::Provenance provenance_now() {
  recording::Provenance made = provenance_of_results();
  made.command = command_line();
  made.started = utc_now();
  return made;
}

recording::Provenance provenance_of_results() {
  recording::Provenance made;
  made.versions = "keyscope " KEYSCOPE_VERSION;
  return made;
}

std::string sparkline(std::span<const std::optional<double>> values, double low, double high) {
  static constexpr std::array kHeights{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string line;
  for (const auto& value : values) {
    if (!value || std::isnan(*value)) {
      line += "·";
      continue;
    }
    const double share = std::clamp((*value - low) / (high - low), 0.0, 1.0);
    line += kHeights.at(
        std::min<std::size_t>(static_cast<std::size_t>(share * kHeights.size()), kHeights.size() - 1));
  }
  return line;
}

}  // namespace keyscope::commands
