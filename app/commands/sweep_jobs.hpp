#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "app/commands/cli_fwd.hpp"
#include "app/commands/options.hpp"
#include "app/results/run_identity.hpp"
#include "app/sweep/study_plan.hpp"
#include "capture/inference/capture.hpp"
#include "capture/model/model.hpp"

namespace keyscope::commands {

using Words = std::vector<std::string>;  // of a command line

// Reads a job's options as its command does.
//   what: the job, for messages
//   throws UsageError naming job and option
void parse_words(CLI::App& command, Words words, const std::string& what);

// The model that was asked for last.
class ModelShelf {
 public:
  std::shared_ptr<const capture::Model> get(const ModelChoice& choice, const capture::ModelOptions& options);

 private:
  std::string key_;
  std::shared_ptr<const capture::Model> model_;
};

// Which model computes, without reading all its weights again.
//   throws FileError where the model's files have changed since they were planned
results::ModelIdentity identity_of(const capture::Model& model, const sweep::PlannedModel& planned);

// What a run over a prompt is expected to take, scaled from the longest of its kind.
class Estimate {
 public:
  Estimate(const capture::Model& model, const capture::CaptureOptions& options);
  void apply(sweep::Cell& cell) const;

 private:
  double seconds_per_token_ = 0;
  std::int64_t memory_bytes_ = 0;
};

// Whether the work was cancelled, by any of the ways in which a job's parts ask.
class Cancelling {
 public:
  capture::CaptureControl control;
  std::atomic<bool> cancelled = false;

  void cancel() {
    cancelled = true;
    control.cancel();
  }
};

// Jobs of the commands. All
//   words: the job's command line, with model and seed, without the command
//   throw UsageError and FileError on what cannot be asked of the model

//   task: "niah"
std::unique_ptr<sweep::Job> make_eval_job(const std::string& task, Words words, const std::string& what,
                                          ModelShelf& shelf, const sweep::PlannedModel& planned);
std::unique_ptr<sweep::Job> make_validate_job(const Words& words, const std::string& what, ModelShelf& shelf,
                                              const sweep::PlannedModel& planned);
// The answers of all its tasks, and the prompts whose keys and attention it looks at.
std::unique_ptr<sweep::Job> make_report_job(const Words& words, const std::string& what, ModelShelf& shelf,
                                            const sweep::PlannedModel& planned);
//   more: model, seed and threads
std::unique_ptr<sweep::Job> make_capture_job(const sweep::StudyJob& job, const Words& more,
                                             const std::string& what, ModelShelf& shelf,
                                             const sweep::PlannedModel& planned);

}  // namespace keyscope::commands
