#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/evaluation/example.hpp"
#include "app/results/out_folder.hpp"
#include "capture/inference/completion.hpp"
#include "capture/model/model.hpp"

namespace keyscope::evaluation {

// What an evaluation makes of its results in OUT once all are there: results.json and cost.json, every figure
// of the task as png, svg and pdf, and all of them as TASK.h5.
//   compared: whether anything is compared with the full cache
std::vector<std::filesystem::path> summary_files(const std::filesystem::path& out, const std::string& task,
                                                 bool compared);

// All that an evaluation keeps in OUT: those, its settings and its results.
std::vector<std::filesystem::path> folder_files(const std::filesystem::path& out, const std::string& task,
                                                bool compared);

// An example under a grid point.
struct AskedResult {
  const Example* example;
  const GridPoint* point;
};

// A result that was made elsewhere: its line of examples.jsonl; empty: there is none.
using FindLine = std::function<std::optional<std::string>(const Settings&, const AskedResult&)>;

// Where an evaluation writes: an OutFolder, of which OUT/examples.jsonl holds a line for every example and
// grid point that is done, each on the disk before the next one. A killed evaluation leaves whole
// lines and at most one torn one at the end, which is dropped and done again.
class ResultFolder {
 public:
  // Opens OUT, or what will be it. Writes nothing before `begin`.
  //   discard: whether results of other settings may be thrown away
  //   throws FileError as OutFolder does, where a line is damaged, naming it, and where the results to be
  //   thrown away are another command's
  ResultFolder(std::filesystem::path out, const nlohmann::ordered_json& settings, bool discard);
  ~ResultFolder();
  ResultFolder(const ResultFolder&) = delete;
  ResultFolder& operator=(const ResultFolder&) = delete;

  // Makes the folder ready: settings written, a torn line gone, and with results of other settings the
  // summary_files and the recordings made of them. All others stay.
  //   throws FileError where that fails, or another evaluation is writing there
  void begin();

  // After `begin`: takes over what was made elsewhere and is not here.
  //   throws FileError where a line is damaged, or cannot be written
  void adopt(const Settings& settings, std::span<const Example> examples, const FindLine& find);

  // After `begin`, once all results are there: their lines in the order of examples and grid points, so that
  // it does not matter in which order, and by whom, they were made.
  void put_in_order(const Settings& settings, std::span<const Example> examples) const;

  // What was there when the folder was opened, and what was adopted, by result_key.
  const std::map<std::string, ExampleResult>& earlier() const { return earlier_; }

  // After `begin`: adds a line, durably.
  //   throws FileError where it cannot be written
  void append(std::string_view line);

  // Writes a file of the folder as a whole, over an earlier one.
  void write(const std::filesystem::path& name, std::string_view bytes) const { out_.write(name, bytes); }
  std::filesystem::path file(const std::filesystem::path& name) const { return out_.file(name); }
  // Where a recording of that name goes, which is noted as this evaluation's if it is not there yet.
  std::filesystem::path new_recording(const std::string& name) const;

 private:
  void read_earlier();
  void open_lines();
  void remove_results_of(const std::string& task) const;

  results::OutFolder out_;
  std::string discarded_task_;  // whose results are to go; empty: none are
  std::map<std::string, ExampleResult> earlier_;
  std::int64_t whole_bytes_ = 0;  // of examples.jsonl, up to the end of its last whole line
  int descriptor_ = -1;
};

// The other end of a running evaluation.
struct EvaluationWatch {
  capture::CaptureControl& control;  // ends it within a block
  // Called after every block: tokens of all prompts and generations that were still to be done, shared ones
  // included.
  std::function<void(std::int64_t done, std::int64_t total, const std::string& label)> on_progress;
};

struct Evaluation {
  std::vector<ExampleResult> results;  // examples in order, each under all grid points in order
  std::int64_t n_earlier = 0;          // of them, how many an interrupted evaluation left
  capture::CompletionCost cost;        // of the others
};

// Before anything runs: ids of examples must differ, every prompt must fit into the model's context with what
// is to be generated, and every policy into the budget that the prompt gives it.
//   throws InvalidInput, or UsageError, naming the example
void check_examples(const Settings& settings, std::span<const Example> examples, const capture::Model& model);

// Every example under every grid point, by what is run together, since it shares beginnings: those of a group
// of examples and of one block size.
std::vector<std::vector<AskedResult>> asked_groups(std::span<const Example> examples,
                                                   std::span<const GridPoint> grid);

// Tokens that pass through the model for one, at most.
std::int64_t tokens_of(const AskedResult& asked);

// The other end of running a group.
struct GroupWatch {
  capture::CaptureControl& control;
  // Called for each once it is done, with the line of examples.jsonl that holds it.
  std::function<void(const AskedResult&, const std::string& line)> done;
  std::function<void(std::int64_t tokens_done)> on_progress;
};

// Runs some or all of a group, with what is common read once.
//   throws Cancelled where it was ended
capture::CompletionCost run_group(const capture::Model& model, const Settings& settings,
                                  std::span<const AskedResult> group, const Scorer& scorer,
                                  const GroupWatch& watch);

// How much work an evaluation is.
struct Plan {
  std::int64_t n_results = 0;     // every example under every grid point
  std::int64_t n_earlier = 0;     // of them, those that are in the folder
  std::int64_t tokens_asked = 0;  // of the others' prompts and generations, shared ones included, at most
};

//   folder: null: there are no earlier results
Plan plan_evaluation(const Settings& settings, std::span<const Example> examples, const ResultFolder* folder);

// Runs every example under every grid point whose result is not in the folder, group by group with common
// beginnings read once, and adds each to the folder as it is done. Results are what an uninterrupted
// evaluation gives, in the same order.
//   folder: after `begin`; null: results are kept in memory alone
//   throws Cancelled where it was ended, saying how many results there are; otherwise as complete_prompts
Evaluation evaluate(const capture::Model& model, const Settings& settings, std::span<const Example> examples,
                    const Scorer& scorer, ResultFolder* folder, const EvaluationWatch& watch);

}  // namespace keyscope::evaluation
