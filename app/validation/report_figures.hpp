#pragma once

#include <vector>

#include "app/figures/figure.hpp"
#include "app/validation/validation_report.hpp"

namespace keyscope::validation {

// The pictures of a validation, means with their intervals over prompts: "correlation-by-layer",
// "cosines-by-layer" (both of the full cache) and "policies" (log volume, attention kept, output error, KL).
std::vector<figures::Figure> report_figures(const Report& report);

}  // namespace keyscope::validation
