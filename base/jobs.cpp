#include "base/jobs.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope {

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

namespace {

double seconds_between(JobWatch::Clock::time_point from, JobWatch::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

bool counts(const JobStatus& status) { return status.done > 0 && status.done < status.total; }

// Of what is counted, a second; 0: not known.
double rate(const JobStatus& status) {
  return status.counting_seconds > 0 ? static_cast<double>(status.done) / status.counting_seconds : 0;
}

}  // namespace

void JobWatch::note(std::int64_t done, std::int64_t total, Clock::time_point now) {
  std::lock_guard lock(mutex_);
  if (!began_) began_ = now;
  noted_ = now;
  done_ = done;
  total_ = total;
}

void JobWatch::check() const {
  if (cancelled_) throw Cancelled("cancelled: " + what_);
}

JobStatus JobWatch::status(Clock::time_point now) const {
  std::lock_guard lock(mutex_);
  return {what_,
          unit_,
          done_,
          total_,
          seconds_between(asked_, now),
          began_ ? seconds_between(*began_, noted_) : 0,
          cancelled_};
}

std::optional<double> seconds_left(const JobStatus& status) {
  if (!counts(status) || rate(status) <= 0) return std::nullopt;
  return static_cast<double>(status.total - status.done) / rate(status);
}

double share_done(const JobStatus& status) {
  if (status.total <= 0) return 0;
  return std::clamp(static_cast<double>(status.done) / static_cast<double>(status.total), 0.0, 1.0);
}

std::string describe_job(const JobStatus& status) {
  if (status.cancelled) return "stopping: " + status.what;
  if (!counts(status)) return fmt::format("{} … {}", status.what, duration_text(status.elapsed_seconds));
  std::string text = fmt::format("{}: {} of {} {}", status.what, status.done, status.total, status.unit);
  if (const double per_second = rate(status); per_second > 0)
    text += ", " + rate_text(per_second, status.unit);
  if (const auto left = seconds_left(status)) text += fmt::format(", {} left", duration_text(*left));
  return text;
}

}  // namespace keyscope
