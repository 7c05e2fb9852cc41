#include "app/session/job_watch.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/session/live_text.hpp"

namespace keyscope::session {
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

}  // namespace keyscope::session
