#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/sweep/study.hpp"

namespace keyscope::sweep {

// The smallest piece of a study that has a result of its own.
struct Cell {
  std::string id;     // digest of all that its result depends on, weights included
  std::string batch;  // likewise of the cells that are run with it, since they have a beginning in common
  int job = 0, model = 0;         // of the study
  int seed = 0;                   // of the study's seeds, which one
  std::int64_t index = 0;         // its place among the job's cells of this model and seed
  std::int64_t tokens = 0;        // that pass through the model, at most
  double seconds = 0;             // estimated
  std::int64_t memory_bytes = 0;  // estimated, weights included
  std::string about;  // JSON: {"prompt": "line 3", "policy": "keydiff", "budget": "25%", "block": 64}
};

// A digest of what a result depends on: 32 hex digits.
std::string cell_digest(const nlohmann::ordered_json& depends_on);

// A model as the plan found it.
struct PlannedModel {
  std::string name;            // as the study names it
  std::string sha256;          // of its configuration and the files' headers
  std::string weights_sha256;  // the same with the weights
};

struct Plan {
  Study study;
  std::string program_version;
  std::vector<PlannedModel> models;
  std::vector<Cell> cells;  // job by job of a model, cells of a batch one after another

  // The first cell of every batch, and the end of all.
  std::vector<std::size_t> batch_starts() const;
};

// A study's folder: plan.json, cells.jsonl, and what workers leave in it.
//   claims/BATCH        who works on what
//   results/XX/ID.json  the result of a cell, once it is there: a line about how it came to be, and its own
//   lines results/XX/ID.h5    its recording, where it is one failures/ID.json    why a cell failed
//   workers/NAME.jsonl  what each worker has finished, and how long it took
class SweepFolder {
 public:
  explicit SweepFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& path() const { return folder_; }
  std::filesystem::path claims() const { return folder_ / "claims"; }
  std::filesystem::path workers() const { return folder_ / "workers"; }
  std::filesystem::path result(const std::string& cell) const;
  std::filesystem::path recording(const std::string& cell) const;
  std::filesystem::path failure(const std::string& cell) const;

  // Writes a plan over an earlier one; results stay, and those whose cells are still planned count.
  //   throws FileError where the folder holds something else, or it cannot be written
  void write(const Plan& plan) const;

  //   throws FileError where there is none, or it is damaged, naming file and line
  Plan read() const;

  // The cells that have a result, and those that failed, in no order.
  std::vector<std::string> finished() const;
  std::vector<std::string> failed() const;

 private:
  std::filesystem::path folder_;
};

}  // namespace keyscope::sweep
