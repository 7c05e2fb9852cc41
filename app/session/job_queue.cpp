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

bool JobQueue::post(std::string kind, std::function<void()> job) {
  bool replaced = false;
  {
    std::lock_guard lock(mutex_);
    const auto same = std::ranges::find(waiting_, kind, &Waiting::kind);
    replaced = same != waiting_.end();
    if (replaced)
      same->job = std::move(job);
    else
      waiting_.push_back({std::move(kind), std::move(job)});
  }
  changed_.notify_one();
  return replaced;
}

bool JobQueue::idle() const {
  std::lock_guard lock(mutex_);
  return !running_ && waiting_.empty();
}

void JobQueue::work() {
  // On Linux a niceness belongs to a thread; where it is refused the jobs run as the others do.
  if (priority_ == Priority::kLow) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowNiceness);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    std::function<void()> job = std::move(waiting_.front().job);
    waiting_.pop_front();
    running_ = true;
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
    running_ = false;
  }
}

}  // namespace keyscope::session
