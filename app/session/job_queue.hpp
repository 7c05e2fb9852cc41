#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>

namespace keyscope::session {

// A thread that runs jobs one after another. A job that still waits is replaced by a newer one of its kind:
// whoever moves quickly over ten heads reads the last one, not all ten.
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

}  // namespace keyscope::session
