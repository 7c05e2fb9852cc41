#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/evaluation/example_result.hpp"
#include "app/results/out_folder.hpp"

namespace keyscope::evaluation {

// What an evaluation makes of its results in OUT once all are there: results.json, every figure of the task
// as png, svg and pdf, and all of them as TASK.h5.
//   compared: whether anything is compared with the full cache
std::vector<std::filesystem::path> summary_files(const std::filesystem::path& out, const std::string& task,
                                                 bool compared);

// All that an evaluation keeps in OUT: those, its settings and its results.
std::vector<std::filesystem::path> folder_files(const std::filesystem::path& out, const std::string& task,
                                                bool compared);

// Where an evaluation writes: an OutFolder, of which OUT/examples.jsonl holds a line for every example and
// grid point that is done, each on the disk before the next one. A killed evaluation leaves whole
// lines and at most one torn one at the end, which is dropped and done again.
class ResultFolder {
 public:
  // Opens OUT, or what will be it. Writes nothing before `begin`.
  //   discard: whether results of other settings may be thrown away
  //   throws FileError as OutFolder does, and where a line is damaged, naming it
  ResultFolder(std::filesystem::path out, nlohmann::ordered_json settings, bool discard);
  ~ResultFolder();
  ResultFolder(const ResultFolder&) = delete;
  ResultFolder& operator=(const ResultFolder&) = delete;

  // Makes the folder ready: settings written, a torn line gone, and with results of other settings the
  // summary_files made of them. All others stay.
  //   throws FileError where that fails, or another evaluation is writing there
  void begin();

  // What was there when the folder was opened, by result_key.
  const std::map<std::string, ExampleResult>& earlier() const { return earlier_; }

  // After `begin`: adds a line, durably.
  //   throws FileError where it cannot be written
  void append(std::string_view line);

  // Writes a file of the folder as a whole, over an earlier one.
  void write(const std::filesystem::path& name, std::string_view bytes) const { out_.write(name, bytes); }
  std::filesystem::path file(const std::filesystem::path& name) const { return out_.file(name); }

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

}  // namespace keyscope::evaluation
