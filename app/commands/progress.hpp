#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace keyscope::commands {

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

}  // namespace keyscope::commands
