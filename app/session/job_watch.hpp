#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

namespace keyscope::session {

// How far a worker's job is, at one moment.
struct JobStatus {
  std::string what;             // "opening run.h5"
  std::string unit;             // what is counted, in the plural: "layers"; empty: nothing is
  std::int64_t done = 0;        // of `total`
  std::int64_t total = 0;       // 0: not known, or nothing is counted
  double elapsed_seconds = 0;   // since it was asked for
  double counting_seconds = 0;  // since it began to count, until its last report
  bool cancelled = false;       // it ends as soon as it can
};

// What the window and a worker know of a job together: the worker says how far it is, the window may call it
// off. Safe from any thread.
class JobWatch {
 public:
  using Clock = std::chrono::steady_clock;

  //   what, unit: as JobStatus's
  explicit JobWatch(std::string what, std::string unit = {}, Clock::time_point now = Clock::now())
      : what_(std::move(what)), unit_(std::move(unit)), asked_(now) {}

  // The first report says when counting began.
  void note(std::int64_t done, std::int64_t total, Clock::time_point now = Clock::now());
  void cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_; }

  //   throws Cancelled once it was called off
  void check() const;

  JobStatus status(Clock::time_point now = Clock::now()) const;

 private:
  const std::string what_, unit_;
  const Clock::time_point asked_;
  std::atomic<bool> cancelled_ = false;
  mutable std::mutex mutex_;
  std::optional<Clock::time_point> began_;  // to count
  Clock::time_point noted_;
  std::int64_t done_ = 0, total_ = 0;
};

// Seconds until all is done, at the rate since counting began; empty where that is not known, or where all
// is counted and something is still to be done.
std::optional<double> seconds_left(const JobStatus& status);

// The share of what is counted that is done, from 0 to 1.
double share_done(const JobStatus& status);

// "opening run.h5: 12 of 64 layers, 8.0 layers/s, 6 s left"; what is not known is left out.
std::string describe_job(const JobStatus& status);

}  // namespace keyscope::session
