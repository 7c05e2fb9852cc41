#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "app/sweep/study_plan.hpp"
#include "app/sweep/sweep_folder.hpp"
namespace keyscope::sweep {

// Which part of a study a worker begins with: part `index` of `count`, from 0.
struct Share {
  int index = 0, count = 1;
};

// "2/8": the second of eight.
//   throws UsageError on anything else
Share parse_share(const std::string& text);

// What a launcher gave this process: a task of a Slurm array, or of `srun`; a rank of Open MPI, MPICH or
// another that speaks PMI or PMIx. Several together multiply: every task of an array may be many processes.
// Empty: none did.
//   variable: an environment variable; null: it is not set
//   throws UsageError where a variable says what cannot be
std::optional<Share> share_of_launcher(const std::function<const char*(const char*)>& variable);

struct WorkerOptions {
  Share share;
  std::chrono::milliseconds lease{120'000};
};

// The other end of a worker.
struct WorkerWatch {
  const std::atomic<bool>& cancelled;
  // Gets the job that runs, to cancel it; null: none does.
  std::function<void(Job*)> on_job;
  // Cells finished by anybody, and all of them; tokens of the batch at hand.
  std::function<void(std::int64_t done, std::int64_t total, const std::string& label)> on_progress;
};

struct WorkerOutcome {
  std::int64_t n_done = 0;    // by this worker
  std::int64_t n_failed = 0;  // likewise
  std::int64_t n_left = 0;    // that others hold
};

// Runs what is missing: its own share first, then what nobody holds, then what the dead have left. Ends when
// every cell is finished or failed, or held by a worker that lives.
//   throws Cancelled where it was ended, KeepError where results cannot be kept, and Error where nothing but
//   failures came of several batches: the fault may be this machine's, and others can go on
WorkerOutcome run_worker(const SweepFolder& folder, const Plan& plan, JobMaker& maker,
                         const WorkerOptions& options, const WorkerWatch& watch);

}  // namespace keyscope::sweep
