#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>

namespace keyscope {

// A thread that runs jobs one after another. A job that still waits is replaced by a newer one of its kind:
// moving quickly over ten heads reads the last one, not all ten.
class JobQueue {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Priority { kNormal, kLow };  // low: yields the processor to inference and to drawing

  explicit JobQueue(Priority priority);
  ~JobQueue();  // waits for the job that runs; drops those that wait
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  // Jobs must not throw. Returns whether one that waited was replaced, and will not run.
  //   delay: how long it waits at least; what is replaced by then was not worth the work
  bool post(std::string kind, std::function<void()> job, Clock::duration delay = {});

  bool idle() const;  // nothing runs and nothing waits

 private:
  struct Waiting {
    std::string kind;
    std::function<void()> job;
    Clock::time_point due;
  };

  std::list<Waiting>::iterator wait_for_job(std::unique_lock<std::mutex>& lock);  // the end when stopping
  void work();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Waiting> waiting_;
  bool running_ = false;
  bool stopping_ = false;
  Priority priority_;
  std::thread thread_;
};

// How far a worker's job is now.
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

// What a job may throw becomes a result, so that no worker ends the process.
template <typename Work, typename Fail>
void guarded(const Work& work, const Fail& fail) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    fail(std::string("memory ran out"));
  } catch (const std::exception& error) {
    fail(std::string(error.what()));
  }
}

}  // namespace keyscope
