#pragma once

#include <map>
#include <span>
#include <string>

#include "capture/recording/records.hpp"

namespace keyscope::recording {

// A policy's options as a run's `parameters`: a JSON object in which what reads as a number is one.
std::string parameters_json(const std::map<std::string, std::string>& options);

// What a run of `policy` is called beside runs that are there: `keydiff`, the second one `keydiff-2`.
std::string next_run_name(const std::string& policy, std::span<const RunPlan> runs);

}  // namespace keyscope::recording
