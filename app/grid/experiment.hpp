#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "analysis/statistics.hpp"
#include "app/results/run_identity.hpp"
#include "capture/model/config.hpp"

namespace keyscope::grid {

// A model that a claim was published for: by what it is called and by its shape, since weights of that shape
// may be others.
struct PublishedModel {
  std::string repository;  // "meta-llama/Llama-3.1-8B-Instruct"
  int layers = 0, heads = 0, kv_heads = 0;
  std::int64_t hidden = 0;
};

// One of an experiment's tasks as its file describes it.
struct ExperimentTask {
  std::string name;          // by which rows refer to it
  std::string kind;          // "niah", "phonebook", "longbench", "math500", "ruler", or one that is not known
  std::int64_t length = 0;   // tokens of prompts that are generated; 0: as the kind has it
  std::int64_t samples = 0;  // 0: likewise
  std::vector<std::string> parts = {};     // of the kind's tasks or data sets; empty: all
  std::int64_t distractors = 0;            // of needles
  std::vector<double> depths = {};         // of needles, in percent; empty: 10, 30, 50, 70, 90
  std::vector<std::int64_t> entries = {};  // of phone books
  std::int64_t max_new_tokens = 0;         // 0: as the kind has it
  std::int64_t answers = 1;                // that are drawn for each problem of math500
  double temperature = 0, top_p = 1;       // by which they are
  std::string score;                       // of the kind's scores; empty: its first
};

// A row's score that no task has: the global eviction ratio of an example (evaluation::EvidenceFate), of
// those that have one.
//   source: arXiv 2603.01426
inline constexpr std::string_view kGoneEverywhere = "gone_everywhere";

// A measurement that a number was published for.
struct ExperimentRow {
  std::string what;  // for people
  std::string task;
  std::string policy, budget;  // as on the command line; "none" has no budget
  std::int64_t block = 0;
  // What is subtracted, example by example, or of whose mean the row is the share; no policy: nothing is.
  std::string against_policy = {}, against_budget = {};
  bool share = false;      // of it, in percent
  std::string score = {};  // of the task's, or kGoneEverywhere; empty: the one that the task names
  // Only examples of one data set, depth (in percent) or number of entries, in figures; empty: of all.
  std::string part = {};
  // Only problems that are longer, with their answers under the full cache, than the row's budget.
  bool over_budget = false;
  // In points: a number is both of its ends, "at most" has no low one; neither: none was published.
  std::optional<double> low = {}, high = {};
  std::string not_comparable = {};  // why the number is of something else than what is run; else empty

  bool published() const { return low || high; }
};

// A published claim as a file: model, tasks, slots, numbers.
struct Experiment {
  std::string name, claim, source;
  std::string notes;  // in what it differs from what was published; may be empty
  std::vector<PublishedModel> models;
  double tolerance_points = 0;
  std::vector<ExperimentTask> tasks;
  std::vector<ExperimentRow> rows;
};

// Reads FILE, format 1. What this version cannot run is no error.
//   throws FileError naming file, field, what was found and what was expected
Experiment read_experiment(const std::filesystem::path& file);

// Whether a model is one of those that the claim was published for.
bool is_published(const Experiment& experiment, const results::ModelIdentity& model,
                  const capture::ModelConfig& config);

// The interval of a mean of so many examples that all have the same: the bootstrap's is a point, as if no
// other example could do otherwise. Of n examples none of which does, up to 1 - 0.025^(1/n) of all may (the
// end of the exact binomial interval), by 100 points each. Other intervals are left as they are.
//   found: in points; difference: of two scores, else one within [0, 100]
analysis::BootstrapMean with_room(const analysis::BootstrapMean& found, bool difference);

// Whether a number found here agrees with the published one.
enum class Verdict { kAgrees, kDiffers, kCannotTell };
std::string_view verdict_name(Verdict verdict);  // "agrees", "differs", "cannot tell"

struct Judgement {
  Verdict verdict = Verdict::kCannotTell;
  std::string reason;  // why it cannot be told; else empty
};

// With the published number, widened by the tolerance to either side (what a rerun may differ by without
// speaking against it, which no interval of ours says): it agrees where the whole interval found lies in
// that, differs where all of it lies outside, and cannot be told where it reaches over an end. So few
// examples agree with nothing and differ from nothing.
//   why_not: a reason for which numbers here say nothing of the published ones, such as another model; empty:
//   there is none
Judgement judge(const ExperimentRow& row, const analysis::BootstrapMean& found, double tolerance_points,
                const std::string& why_not);

}  // namespace keyscope::grid
