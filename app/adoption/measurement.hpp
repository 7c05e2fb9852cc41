#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <span>

#include "app/adoption/adoption.hpp"
#include "app/adoption/task.hpp"
#include "app/benchmarks/benchmark.hpp"
#include "app/evaluation/settings.hpp"
#include "app/validation/prompts_file.hpp"
#include "capture/model/model.hpp"

namespace keyscope::adoption {

// What a report measures beside the tasks' answers.
struct MeasurementOptions {
  double tolerance = 0.02;
  std::int64_t latency_repeat = 5;  // 0: time to the first token is not measured
  std::span<const validation::Prompt> diagnosed =
      {};                // whose keys and attention are looked at; none: of none
  bool discard = false;  // results of other settings may be thrown away
};

// The other end of a running measurement: tokens of the stage at hand, whose name is in the label.
struct MeasurementWatch {
  benchmarks::Monitor& monitor;        // both end it, inference the one
  const std::atomic<bool>& cancelled;  // and measuring the other
};

// Before tasks are asked, which may take days, and before earlier results are discarded for them.
//   throws FileError where memory is too small for the diagnosis, at the end of a measurement
void check_diagnosis_memory(const capture::Model& model, const evaluation::Settings& settings,
                            std::span<const validation::Prompt> diagnosed);

// Everything that an adoption report says. Answers are kept in OUT/<task>/examples.jsonl, what was seen of
// keys and attention in OUT/geometry-<budget>/: a killed measurement goes on there. Times are measured anew.
//   settings: with one block size, at least one policy and one budget
//   tasks: at least one, each with examples
//   throws as evaluation::evaluate, validation::measure_prompts and benchmarks::measure_prefill do
Adoption measure_adoption(const capture::Model& model, const evaluation::Settings& settings,
                          std::span<const Task> tasks, const MeasurementOptions& options,
                          const std::filesystem::path& out, const MeasurementWatch& watch);

}  // namespace keyscope::adoption
