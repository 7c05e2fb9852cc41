#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/sweep/study_plan.hpp"

namespace keyscope::sweep {

// What a cell came to.
struct CellResult {
  std::string lines;                     // JSON, a line each
  std::filesystem::path recording = {};  // where it was written; empty: there is none
};

// The other end of running cells.
struct JobWatch {
  // Where a cell's recording is to be written: a path that nobody else writes to.
  std::function<std::filesystem::path(const Cell&)> recording;
  // Called for every cell once it is done.
  std::function<void(const Cell&, const CellResult&)> done;
  // Called every now and then: tokens of the batch.
  std::function<void(std::int64_t done, std::int64_t total)> progress;
};

// One command of a study, with one model and one seed.
class Job {
 public:
  virtual ~Job() = default;

  // Its cells in order, those of a batch one after another; without job, model and seed.
  //   throws UsageError and FileError on what cannot be asked of the model
  virtual std::vector<Cell> cells() = 0;

  // Runs cells of one batch, which `cells` gave in this or another process.
  //   throws Cancelled once `cancel` was called
  virtual void run(std::span<const Cell> batch, const JobWatch& watch) = 0;
  virtual void cancel() = 0;  // from any thread
};

// Makes the jobs of studies: what needs the commands themselves.
class JobMaker {
 public:
  virtual ~JobMaker() = default;

  // Reads a model's weights once.
  //   throws as Model::load does
  virtual PlannedModel planned_model(const std::string& name) = 0;
  //   throws UsageError on a command or an option that there is not, and where the model is not the planned
  //   one
  virtual std::unique_ptr<Job> make(const Study& study, int job, const PlannedModel& model, int seed) = 0;
};

// Plans every job with every model and every seed, model by model.
//   progress: called with jobs done and all of them; what it throws ends planning
Plan plan_study(Study study, JobMaker& maker,
                const std::function<void(std::int64_t, std::int64_t)>& progress);

}  // namespace keyscope::sweep
