#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/recording/hdf5.hpp"

namespace keyscope::sweep {

// The file of a merged study, as `merge` writes it. The root has `keyscope_study` (format), and with
// recordings what recordings have. /study (NXentry) has
//   `name`, `program`, `plan` (JSON: study and models), and the figures over the study's axes;
//   `cells` (NXdata), a list a column: `cell` (its name), `job` (from 1), `command`, `model`, `seed`,
//   `state`, `error`, then what it is about, then what came of it; `lines` (bytes) and `line_offset`: what
//   each cell gave, as its command writes it.
// /entry, /entry_2, … are recordings, each with the runs of all cells of one model, prompt and seed. What
// took how long, and where, is not in it, so that studies of equal results are equal files (but for what
// recordings say of times).
inline constexpr std::int64_t kStudyFileFormat = 1;
inline constexpr const char *kStudyFormat = "keyscope_study", *kStudyEntry = "study", *kCells = "cells",
                            *kLines = "lines", *kLineOffset = "line_offset", *kPlan = "plan";

// What a cell's state may be.
inline constexpr const char *kDone = "done", *kFailed = "failed", *kMissing = "missing",
                            *kDamaged = "damaged";  // a result that cannot be used

// The results of a merged study, to read from.
class StudyFile {
 public:
  //   throws FileError where it is no merged study, or damaged
  explicit StudyFile(const std::filesystem::path& path);

  const std::string& name() const { return name_; }
  std::int64_t n_cells() const { return std::ssize(states_); }
  std::int64_t n_in_state(const std::string& state) const;

  // What a cell gave; empty: it has no result here.
  //   id: Cell::id
  std::optional<std::string> lines(const std::string& id) const;

 private:
  recording::hdf5::File file_;
  std::string name_;
  recording::hdf5::Dataset lines_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::string> states_;
  std::unordered_map<std::string, std::size_t> rows_;  // by the cells' ids
};

// Whether a readable file is a merged study.
bool is_study_file(const std::filesystem::path& path);

}  // namespace keyscope::sweep
