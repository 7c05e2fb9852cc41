#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json_fwd.hpp>

#include "capture/model/model.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::commands {

// What people read of a command, on stdout or `to`, as fmt::print has it: names and texts out of files cannot
// make the terminal do anything but begin a line (terminal_text).
void say_text(std::FILE* to, std::string_view text);
template <typename... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
  say_text(stdout, fmt::format(format, std::forward<Values>(values)...));
}
template <typename... Values>
void say(std::FILE* to, fmt::format_string<Values...> format, Values&&... values) {
  say_text(to, fmt::format(format, std::forward<Values>(values)...));
}

// What programs read, on stdout: byte for byte, but where a terminal would be sent it.
//   throws FileError where it cannot be written
void say_exactly(std::string_view text);

// One line on stderr that says how far a long job is, its rate and the time left. Draws nothing where stderr
// is not a terminal, or when `quiet`. Safe from any thread.
class Progress {
 public:
  //   unit: what is counted, in the plural: "tokens", "heads"
  Progress(std::string unit, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // done of total units; label: what is being worked on. Redraws at most ten times a second.
  void update(std::int64_t done, std::int64_t total, std::string_view label);

  // Takes the line away. Also done on destruction.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  std::string unit_;
  bool visible_;
  bool drawn_ = false;
  std::mutex mutex_;
  Clock::time_point started_ = Clock::now();
  Clock::time_point last_drawn_{};
};

// Shows on stderr how much of a model's weights has been hashed, as Progress does, for as long as it lives.
capture::HashProgress hash_progress_line(bool quiet);

inline constexpr int kInterrupted = 130;  // exit status after Ctrl-C or SIGTERM

// Takes over Ctrl-C and SIGTERM for the process. Call once, in `main`, before any other thread starts.
void watch_interrupts();

// While it lives, the first interrupt calls `cancel` (on a thread of its own) instead of ending the process;
// a second one ends it at once with status 130.
class OnInterrupt {
 public:
  explicit OnInterrupt(std::function<void()> cancel);
  ~OnInterrupt();
  OnInterrupt(const OnInterrupt&) = delete;
  OnInterrupt& operator=(const OnInterrupt&) = delete;
};

// Where --json (or another option's text) goes: a file, or stdout for "-", or nowhere for "".
struct JsonTarget {
  std::string path;
  bool replace = false;
  std::string option = "--json";

  bool given() const { return !path.empty(); }
  bool is_stdout() const { return path == "-"; }
  // Empty where it is no file.
  std::filesystem::path file() const { return is_stdout() ? std::string() : path; }
};

// Before long work: whether it can be written.
//   out: a folder that the work will make, if any
//   throws UsageError where it is a file that is read; FileError if it exists and may not be replaced
void require_writable(const JsonTarget& target, const std::filesystem::path& out = {});

// Before long work: whether what it writes has room. Some file systems do not tell.
//   what: "the recording"; advice: what to do
//   throws Error where it has not
void require_disk(const std::filesystem::path& out, std::int64_t needed, std::string_view what,
                  std::string_view advice);

// Before long work: whether all that a command writes are different files.
//   outputs: what is empty is none
//   throws UsageError naming one that would be written twice
void require_different(std::span<const std::filesystem::path> outputs);
struct AskedOutput {
  const char* option;
  std::filesystem::path file;
};
void require_different(std::initializer_list<AskedOutput> outputs);

// Whether a file is to lie in a folder that is not there yet.
bool lies_in_new_folder(const std::filesystem::path& file, const std::filesystem::path& out);

// All write a file (whole or not at all) or stdout.
//   write_all: for very long texts, calls its argument with a part at a time
//   throws FileError when it cannot be written
using WriteText = std::function<void(std::string_view)>;
void write_text(const JsonTarget& target, const std::function<void(const WriteText&)>& write_all);
void write_text(const JsonTarget& target, const std::string& text);
// Bytes that are no UTF-8 become U+FFFD.
void write_json(const JsonTarget& target, const nlohmann::ordered_json& json);

// Where results come from that are made now: this program's version, the command line and the time, UTC.
recording::Provenance provenance_now();

// The same of results that any number of calls may have made, one of which went on where another was ended:
// what they depend on stands beside them, and they are the same bytes whoever made them when.
recording::Provenance provenance_of_results();

// One block character per value, its height the value's place between low and high: "▁▄█". Values outside
// take the nearest end; one that does not exist is a middle dot.
std::string sparkline(std::span<const std::optional<double>> values, double low, double high);

}  // namespace keyscope::commands
