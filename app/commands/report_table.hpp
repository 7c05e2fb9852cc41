#pragma once

#include <string>

#include "app/adoption/adoption.hpp"

namespace keyscope::commands {

// The report in short, for a terminal: the recommendation, and per policy and budget what each task loses.
std::string report_table(const adoption::Adoption& adoption);

}  // namespace keyscope::commands
