#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "analysis/statistics.hpp"
#include "app/measures/head_bounds.hpp"
#include "app/measures/head_measures.hpp"
#include "app/results/out_folder.hpp"

namespace keyscope::validation {

// One inequality on the pairs of key and query that it was applied to.
struct BoundTally {
  std::int64_t pairs = 0;
  std::int64_t violations = 0;
  std::optional<double> min_slack;  // none without pairs
};

// What is kept of measures::HeadBounds, whose histograms have 100 kB a head, of the full-cache run.
struct BoundTallies {
  int layer = 0;
  int kv_head = 0;
  BoundTally theorem;                   // over all keys and queries
  std::optional<double> theorem_share;  // of all pairs, those that meet its hypotheses
  std::optional<double> theorem_share_causal;
  BoundTally lemma_stated;  // M = sup ‖k‖², over the pairs with cos(k*, q) >= 0 that the proof covers
  BoundTally lemma_proof;   // M = sup ‖k‖, likewise
  BoundTally lemma_always;  // the form that needs no assumption, over all pairs
  std::optional<double> lemma_share;  // of the causally visible pairs, those with cos(k*, q) >= 0
};

BoundTallies tally_bounds(const measures::HeadBounds& head);

// What was measured of one prompt. Of the runs' heads, the quantities below are kept and nothing else.
struct PromptRecord {
  std::string key;                          // prompt_key of the settings and ids that it belongs to
  std::int64_t n_tokens = 0;                // of the prompt
  std::int64_t budget = 0;                  // N of the runs that evict
  std::vector<measures::RunMeasures> runs;  // `none` first; heads ascending by layer, KV head, as in all runs
  std::vector<BoundTallies> bounds;         // of the run `none`, likewise

  // The run of that name; null if there is none.
  const measures::RunMeasures* run(std::string_view name) const;
};

// As a file of its own. Numbers are written so that they read back to the last bit.
nlohmann::ordered_json prompt_record_json(const PromptRecord& record);

//   where: the file, for messages
//   throws FileError where a field is missing or of another kind, or its key is no digest
PromptRecord parse_prompt_record(std::string_view text, const std::string& where);

// What is kept of every prompt and averaged over them. A quantity belongs to a KV head, or to a whole run.
struct Quantity {
  std::string_view id;     // the public name of `analyze --json`
  std::string_view title;  // for people
  std::string_view units;  // empty: none
  std::optional<double> measures::HeadMeasures::*of_head = nullptr;
  std::optional<double> measures::RunMeasures::*of_run = nullptr;
  bool against_full_cache = false;  // says something only of runs that evict
  // Exists only where heads have learned sinks: the sinks' own, or the measure of this id without them.
  bool of_sinks = false;
};

// All of them, in the order in which they are reported.
std::span<const Quantity> quantities();

// The one of that id; there is one, or the caller is wrong.
const Quantity& quantity(std::string_view id);

// A run's value: itself, or the mean over the heads that have one, of one layer or (-1) of all.
std::optional<double> value_of(const measures::RunMeasures& run, const Quantity& quantity, int layer = -1);

// Mean over the heads that have both of a - b, or the difference of the runs' values.
std::optional<double> difference_of(const measures::RunMeasures& a, const measures::RunMeasures& b,
                                    const Quantity& quantity, int layer = -1);

// What the prompts are: the samples of every mean, in the order of the prompts file.
using Records = std::span<const PromptRecord>;

// One number a prompt, of those prompts that have it.
std::vector<double> samples_of(Records records, const Quantity& quantity, std::string_view run,
                               int layer = -1);

// Paired: run `a` minus run `b`, prompt by prompt and head by head.
std::vector<double> differences_of(Records records, const Quantity& quantity, std::string_view a,
                                   std::string_view b, int layer = -1);

// The mean of one quantity in one run, over the heads of one layer or (-1) of all.
struct SummaryRow {
  const Quantity* quantity = nullptr;
  std::string run;
  int layer = -1;
  analysis::BootstrapMean mean;
};

// The layers of the records, ascending.
std::vector<int> layers_of(Records records);

// Every quantity of every run that has it, over all heads and layer by layer. Rows without a prompt are left
// out.
std::vector<SummaryRow> summarise(Records records, const analysis::BootstrapOptions& options);

// The row, or null if there is none.
const SummaryRow* find_row(std::span<const SummaryRow> rows, std::string_view quantity, std::string_view run,
                           int layer = -1);

// What the figures of its report are called, in their order; OUT/figures has a .svg of each.
inline constexpr std::array<std::string_view, 3> kReportFigures{"correlation-by-layer", "cosines-by-layer",
                                                                "policies"};

// Where a validation writes: an OutFolder, of which OUT/prompts/KEY.json holds a finished prompt. Every file
// appears under its name when it is complete and on the disk, so that a killed validation leaves whole
// prompts and nothing else that counts.
class ResultFolder {
 public:
  // Opens OUT, or what will be it. Writes nothing before `begin`.
  //   discard: whether results of other settings may be thrown away
  //   throws FileError as OutFolder does, and where the results to be thrown away are another command's
  ResultFolder(std::filesystem::path out, const nlohmann::ordered_json& settings, bool discard);

  // Makes the folder ready: settings written, results of other settings gone. Files of other names stay.
  void begin();

  // A finished prompt; none where it is still to be measured.
  //   throws FileError where its file is damaged
  std::optional<PromptRecord> find(const std::string& key) const;
  void save(const PromptRecord& record) const;

  // Writes a file of the folder as a whole, over an earlier one.
  void write(const std::filesystem::path& name, std::string_view bytes) const { out_.write(name, bytes); }

  std::filesystem::path file(const std::filesystem::path& name) const { return out_.file(name); }
  std::filesystem::path recording(const std::string& key) const;

 private:
  results::OutFolder out_;
};

}  // namespace keyscope::validation
