#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "app/adoption/adoption.hpp"
#include "app/adoption/tasks.hpp"
#include "app/benchmarks/benchmark.hpp"
#include "app/evaluation/evaluation.hpp"
#include "app/evaluation/example.hpp"
#include "app/results/prompts.hpp"
#include "app/validation/prompt_record.hpp"
#include "app/validation/validation.hpp"
#include "capture/model/model.hpp"

namespace keyscope::adoption {

// What a report measures beside the tasks' answers.
struct MeasurementOptions {
  double tolerance = 0.02;
  std::int64_t latency_repeat = benchmarks::kLeastRounds;  // 0: time to the first token is not measured
  std::span<const results::Prompt> diagnosed = {};  // whose keys and attention are looked at; none: of none
  bool discard = false;                             // results of other settings may be thrown away
  // What was made elsewhere and is taken over; empty: nothing.
  evaluation::FindLine find_line = {};
  validation::FindRecord find_record = {};
};

// How keys and attention are measured at a budget.
validation::Settings diagnosis_settings(const evaluation::Settings& asked,
                                        const evaluation::AskedBudget& budget);

// The other end of a running measurement: tokens of the stage at hand, whose name is in the label.
struct MeasurementWatch {
  benchmarks::Monitor& monitor;        // both end it, inference the one
  const std::atomic<bool>& cancelled;  // and measuring the other
};

// Before tasks are asked, which may take days, and before earlier results are discarded for them.
//   throws FileError where memory is too small for the diagnosis, at the end of a measurement
void check_diagnosis_memory(const capture::Model& model, const evaluation::Settings& settings,
                            std::span<const results::Prompt> diagnosed);

// Everything that an adoption report says. Answers are kept in OUT/<task>/examples.jsonl, what was seen of
// keys and attention in OUT/geometry-<budget>/: a killed measurement goes on there. Times are measured anew.
//   settings: with one block size, at least one policy and one budget
//   tasks: at least one, each with examples
//   throws as evaluation::evaluate, validation::measure_prompts and benchmarks::measure_prefill do
Adoption measure_adoption(const capture::Model& model, const evaluation::Settings& settings,
                          std::span<const Task> tasks, const MeasurementOptions& options,
                          const std::filesystem::path& out, const MeasurementWatch& watch);

// Which of the tasks' prompts are looked at.
struct PromptChoice {
  std::size_t most = 12;        // of them; 0: none
  std::int64_t max_tokens = 0;  // of each; 0: any number
};

// Evenly spread over each task's examples that are not too long; no prompt twice.
//   throws UsageError where all are too long
std::vector<results::Prompt> choose_prompts(std::span<const Task> tasks, const PromptChoice& choice);

// The prompts' records of one budget: `none` first, then the policies in order.
struct BudgetRecords {
  std::string budget;  // as it was asked for
  std::vector<std::string> policies;
  std::vector<validation::PromptRecord> records;
};

// Fills what an adoption report says of keys and attention.
//   all: at least one budget, all of the same prompts; a candidate whose budget is not among them gets
//   nothing
void add_diagnosis(Adoption& adoption, std::span<const BudgetRecords> all);

}  // namespace keyscope::adoption
