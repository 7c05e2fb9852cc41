#include "app/session/job_queue.hpp"

#include <algorithm>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

namespace keyscope::session {
namespace {

constexpr int kLowNiceness = 10;

}  // namespace

JobQueue::JobQueue(Priority priority) : priority_(priority), thread_([this] { work(); }) {}

JobQueue::~JobQueue() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

bool JobQueue::post(std::string kind, std::function<void()> job, Clock::duration delay) {
  const Clock::time_point due = Clock::now() + delay;
  bool replaced = false;
  {
    std::lock_guard lock(mutex_);
    const auto same = std::ranges::find(waiting_, kind, &Waiting::kind);
    replaced = same != waiting_.end();
    if (replaced) {
      same->job = std::move(job);
      same->due = due;
    } else {
      waiting_.push_back({std::move(kind), std::move(job), due});
    }
  }
  changed_.notify_one();
  return replaced;
}

bool JobQueue::idle() const {
  std::lock_guard lock(mutex_);
  return !running_ && waiting_.empty();
}

std::list<JobQueue::Waiting>::iterator JobQueue::wait_for_job(std::unique_lock<std::mutex>& lock) {
  for (;;) {
    if (stopping_) return waiting_.end();
    const Clock::time_point now = Clock::now();
    const auto ready =
        std::ranges::find_if(waiting_, [now](const Waiting& waiting) { return waiting.due <= now; });
    if (ready != waiting_.end()) return ready;
    if (waiting_.empty())
      changed_.wait(lock);
    else
      changed_.wait_until(lock, std::ranges::min_element(waiting_, {}, &Waiting::due)->due);
  }
}

void JobQueue::work() {
  // On Linux a niceness belongs to a thread; where it is refused the jobs run as the others do.
  if (priority_ == Priority::kLow) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowNiceness);
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto next = wait_for_job(lock);
    if (stopping_) return;
    std::function<void()> job = std::move(next->job);
    waiting_.erase(next);
    running_ = true;
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
    running_ = false;
  }
}

}  // namespace keyscope::session
