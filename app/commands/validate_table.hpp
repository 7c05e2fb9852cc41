#pragma once

#include <string>

#include "app/validation/validation_report.hpp"

namespace keyscope::commands {

// What `validate` prints: every claim with its means, intervals, verdict and the rule it was judged by.
std::string validate_table(const validation::Report& report);

}  // namespace keyscope::commands
