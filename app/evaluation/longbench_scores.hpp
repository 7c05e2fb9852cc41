#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "app/evaluation/longbench_tasks.hpp"

namespace keyscope::evaluation {

// The score of one prediction, a share of 1: the best over the right answers by the task's metric, as
// LongBench's eval.py has it.
//   classes: of a task that is scored by them
//   throws what the metric throws
double longbench_score(const LongBenchTask& task, std::string_view prediction,
                       std::span<const std::string> answers, std::span<const std::string> classes);

// A task's points of 100 over its examples' scores, by the steps of LongBench's eval.py, whose order decides
// which way a tie of the third decimal is rounded: 100 · sum / n.
//   scores: at least one
double task_points(std::span<const double> scores);

// Points of 100 as LongBench's tables have them: two decimals, rounded as Python's `round` does.
double two_decimals(double points);

// Where LongBench-E counts a prompt of so many words: "0-4k", "4-8k" or "8k+".
std::string_view length_bin(std::int64_t n_words);

}  // namespace keyscope::evaluation
