#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "analysis/statistics.hpp"
#include "app/evaluation/evaluation.hpp"
#include "app/grid/experiment.hpp"
#include "capture/model/model.hpp"

namespace keyscope::grid {

// How an experiment is run here. With a length or a number of samples of one's own it is another experiment,
// which settles nothing.
struct ReproductionOptions {
  std::int64_t length = 0;   // tokens of prompts that are generated; 0: the experiment's
  std::int64_t samples = 0;  // of each task; 0: likewise
  std::vector<std::filesystem::path> longbench, math500;  // rows of theirs
  std::string haystack;  // essays around needles: a file or a folder; empty: generated sentences
  std::filesystem::path squad, hotpotqa;  // what RULER's questions are made of; empty: they are left out
  std::uint64_t seed = 0;

  bool as_published() const { return length == 0 && samples == 0; }
};

// A row with what was found.
struct FoundRow {
  ExperimentRow row;
  std::string cannot_run;         // why it cannot be run here; else empty
  analysis::BootstrapMean found;  // points; without samples where it was not run
  Judgement judgement;
};

// An experiment on a model.
class Reproduction {
 public:
  // Makes the prompts of every task that can be asked here, for the policies that there are.
  //   model: must outlive it
  //   throws FileError on files of tasks that cannot be read
  Reproduction(Experiment experiment, ReproductionOptions options, const capture::Model& model,
               results::ModelIdentity identity);
  ~Reproduction();
  Reproduction(const Reproduction&) = delete;
  Reproduction& operator=(const Reproduction&) = delete;

  // Rows that cannot be run, with the reason; all others without what will be found.
  std::vector<FoundRow> rows() const;

  // What `run` keeps in an OUT.
  std::vector<std::filesystem::path> files(const std::filesystem::path& out) const;

  // What is to be run of all rows, at most.
  evaluation::Plan plan() const;

  // Runs what is missing and judges every row. With an OUT answers are kept in OUT/<task>-b<block>/, as
  // `eval` writes them, and an interrupted run goes on there.
  //   out: empty: nothing is kept
  //   discard: whether results of other settings in OUT may be thrown away
  //   throws Cancelled where it was ended, FileError as results::OutFolder, otherwise as evaluation::evaluate
  std::vector<FoundRow> run(const std::filesystem::path& out, bool discard,
                            const evaluation::EvaluationWatch& watch);

  // After `run`: all results, and what they took.
  const evaluation::Evaluation& evaluated() const;

  const Experiment& experiment() const;
  // Whether the model is one that the claim was published for, and why numbers settle nothing where not.
  std::string settles_nothing_because() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The command that settles the claim: on the first model that it was published for.
std::string settling_command(const Experiment& experiment, const std::filesystem::path& file);

// For a terminal: claim, source and a line for each row: published, here, interval, verdict.
std::string reproduction_table(const Experiment& experiment, const std::vector<FoundRow>& rows,
                               const std::string& command);

// All that results.json holds, format 1.
nlohmann::ordered_json reproduction_json(const Reproduction& reproduction, const std::vector<FoundRow>& rows,
                                         const std::string& command);

}  // namespace keyscope::grid
