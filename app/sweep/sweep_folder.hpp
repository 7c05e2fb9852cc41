#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/sweep/study_plan.hpp"
#include "base/errors.hpp"

namespace keyscope::sweep {

// What a folder has. One that is not there has nothing; of one that cannot be listed nothing is known.
//   throws FileError then
void for_each_entry(const std::filesystem::path& folder,
                    const std::function<void(const std::filesystem::path&)>& each);

// A study's folder: plan.json, cells.jsonl, and what workers leave in it, as docs/sweep.md lists it.
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
  //   plan: gives its cells to the function that it is called with
  //   throws FileError where the folder holds something else, or it cannot be written; what `plan` throws
  //   leaves what there was
  Plan write(const std::function<Plan(const EachCell&)>& plan) const;

  //   throws FileError where there is none, or it is damaged
  Plan read() const;

  // The cells that have a result, and those that failed.
  //   throws FileError where a folder cannot be listed: its cells would pass for missing, and be run again
  DigestSet finished() const;
  DigestSet failed() const;

  // So that they are tried once more.
  void forget_failures() const;

 private:
  std::filesystem::path folder_;
};

// The cells of a plan, one after another, or from any place on, as they stand in a study's folder.
class CellReader {
 public:
  //   throws FileError where they are not there
  CellReader(const SweepFolder& folder, const Plan& plan);

  // Empty: that were all of them.
  //   throws FileError where one is damaged, or there are more or fewer than planned, naming file and line
  std::optional<Cell> next();

  // Of the cell that comes next.
  struct Place {
    std::int64_t number = 0, byte = 0;
  };
  const Place& place() const { return place_; }
  void go_to(const Place& place);

 private:
  const Plan& plan_;
  std::string file_;
  std::ifstream lines_;
  Place place_;
};

// A result of a cell could not be kept: not the cell's fault, and no reason to go on.
class KeepError : public FileError {
 public:
  using FileError::FileError;
};

// Gives a part that is on the disk, in the same folder, its name, over an earlier file, and waits until the
// name is there too.
//   throws KeepError
void keep_as(const std::filesystem::path& file, const std::filesystem::path& part);

// How a result came to be; kept on its first line, so that what is the same for everybody stands apart.
struct ResultHead {
  std::string cell;
  std::string program_version;
  std::string worker;  // "node7:4711"
  double seconds = 0;
  std::int64_t n_lines = 0;  // that follow
};

// Writes a result as a whole: a file that nobody else writes, renamed. Of two workers that do so, the last
// one's stays, which is the same.
//   token: of the worker
//   throws KeepError
void write_result(const SweepFolder& folder, const ResultHead& head, const std::string& lines,
                  const std::string& token);

struct Result {
  ResultHead head;
  std::string lines;
};

//   throws FileError where it is not there, or damaged
Result read_result(const SweepFolder& folder, const std::string& cell);

// Why a cell failed.
struct Failure {
  std::string cell, worker, error;
};
//   throws KeepError
void write_failure(const SweepFolder& folder, const Failure& failure, const std::string& token);
//   throws FileError as read_result does
Failure read_failure(const SweepFolder& folder, const std::string& cell);

}  // namespace keyscope::sweep
