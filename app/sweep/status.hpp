#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/sweep/study_plan.hpp"
#include "app/sweep/sweep_folder.hpp"
namespace keyscope::sweep {

// How far a study is, from its folder alone.
struct Status {
  std::int64_t n_planned = 0, n_done = 0, n_failed = 0;  // cells, each counted once
  std::int64_t n_running = 0;                            // of the others, those of batches that are claimed
  std::int64_t n_unplanned = 0;                          // results of cells that are no longer planned
  std::int64_t n_workers = 0;                            // that hold a claim
  double seconds_left_one = 0;                           // of what is left, on one worker
  bool measured = false;          // by what finished cells took; else as it was estimated
  std::vector<Failure> failures;  // the first of them

  // On the workers that there are; empty: there are none.
  std::optional<double> seconds_left() const;
};

//   most_failures: of those that are named
Status status_of(const SweepFolder& folder, const Plan& plan, std::size_t most_failures = 20);

// A study's cells, each counted once, for who looks often: the plan is read once, and then no more than which
// files the folder has.
class CellCount {
 public:
  CellCount(const SweepFolder& folder, const Plan& plan);

  void update();
  std::int64_t n_planned() const { return std::ssize(planned_); }
  std::int64_t n_done() const { return n_done_; }
  std::int64_t n_over() const { return n_done_ + n_failed_; }

 private:
  const SweepFolder& folder_;
  DigestSet planned_;
  std::int64_t n_done_ = 0, n_failed_ = 0;
};

// {"planned", "done", "running", "failed", …}
nlohmann::ordered_json status_json(const Status& status);

}  // namespace keyscope::sweep
