#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "app/sweep/study_plan.hpp"
#include "app/sweep/study_table.hpp"
#include "app/sweep/sweep_folder.hpp"

namespace keyscope::sweep {

struct MergeOptions {
  bool copy = false;     // recordings, instead of referring to them
  bool replace = false;  // an existing file
  // Called with what was done, and all of it: cells that were looked at, then recordings that were joined, as
  // `what` says. What it throws ends merging.
  std::function<void(std::int64_t done, std::int64_t total, std::string_view what)> progress;
};

struct MergeOutcome {
  explicit MergeOutcome(const std::filesystem::path& spool) : table(spool) {}

  StudyTable table;
  std::int64_t n_done = 0, n_failed = 0, n_missing = 0, n_damaged = 0;  // cells, each counted once
  std::vector<std::string> damages;  // what is wrong with the first of them
  std::int64_t n_recordings = 0, n_figures = 0;
};

// Puts all that there is of a study into one file, which appears under its name when it is complete.
//   throws FileError where it exists and may not be replaced, or cannot be written; and where the plan is
//   damaged
MergeOutcome merge(const SweepFolder& folder, const Plan& plan, const ReadMeasures& read_measures,
                   const std::filesystem::path& out, const MergeOptions& options);

}  // namespace keyscope::sweep
