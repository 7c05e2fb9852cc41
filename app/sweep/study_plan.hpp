#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/sweep/study.hpp"

namespace keyscope::sweep {

// The smallest piece of a study that has a result of its own.
struct Cell {
  std::string id;     // digest of all that its result depends on, weights included
  std::string batch;  // likewise of the cells that are run with it, since they have a beginning in common
  std::string joint;  // likewise of those whose recordings are runs of one; empty: it gives no recording
  int job = 0, model = 0;         // of the study
  int seed = 0;                   // of the study's seeds, which one
  std::int64_t index = 0;         // its place among the job's cells of this model and seed
  std::int64_t tokens = 0;        // that pass through the model, at most
  double seconds = 0;             // estimated
  std::int64_t memory_bytes = 0;  // estimated, weights included
  std::string about;  // JSON: {"prompt": "line 3", "policy": "keydiff", "budget": "25%", "block": 64}
};

// A digest of what a result depends on, in hexadecimal digits.
inline constexpr std::size_t kDigestDigits = 32;
std::string cell_digest(const nlohmann::ordered_json& depends_on);

// A digest in few bytes, for sets of hundreds of thousands.
struct Digest {
  std::uint64_t high = 0, low = 0;

  static std::optional<Digest> parse(std::string_view digits);  // empty: it is none
  auto operator<=>(const Digest&) const = default;
};
struct DigestHash {
  std::size_t operator()(const Digest& digest) const noexcept { return digest.low; }
};
using DigestSet = std::unordered_set<Digest, DigestHash>;

// A model as the plan found it.
struct PlannedModel {
  std::string name;            // as the study names it
  std::string sha256;          // of its configuration and the files' headers
  std::string weights_sha256;  // the same with the weights
};

// A study that was planned. Its cells go from hand to hand one by one, as they may be very many: job by job
// of a model, those of a batch one after another.
struct Plan {
  Study study;
  std::string program_version;
  std::vector<PlannedModel> models;
  std::int64_t n_cells = 0;
};
using EachCell = std::function<void(const Cell&)>;

// What a cell came to.
struct CellResult {
  std::string lines;                     // JSON, a line each
  std::filesystem::path recording = {};  // where it was written; empty: there is none
};

// A number that a cell's result holds.
struct Measure {
  std::string name;         // "recall"
  std::string policy = {};  // empty: the cell's own
  double value = 0;
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
  virtual void for_each_cell(const EachCell& each) = 0;

  // Runs cells of one batch, which `for_each_cell` gave in this or another process.
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

// What is compared over a study, of a result of a command.
//   lines: the cell's own, see Result
//   where: what they are of, for messages
//   throws FileError where they are not what the command gives
using ReadMeasures = std::function<std::vector<Measure>(const StudyJob& job, const std::string& lines,
                                                        const std::string& where)>;

// Plans every job with every model and every seed, model by model.
//   progress: called with jobs done and all of them; what it throws ends planning
Plan plan_study(Study study, JobMaker& maker, const std::function<void(std::int64_t, std::int64_t)>& progress,
                const EachCell& each);

}  // namespace keyscope::sweep
