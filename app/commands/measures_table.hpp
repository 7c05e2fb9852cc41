#pragma once

#include <vector>

#include "app/measures/recording_measures.hpp"

namespace keyscope::commands {

// Prints to stdout: one table over all runs, then per run one line a layer (means over its KV heads).
void print_measures(const recording::RecordingInfo& info, const std::vector<measures::RunMeasures>& runs);

// The first of these tables: one line a run, means over all layers and heads.
void print_run_summary(const recording::RecordingInfo& info, const std::vector<measures::RunMeasures>& runs);

}  // namespace keyscope::commands
