#pragma once

#include <string>

#include "app/validation/validation_report.hpp"

namespace keyscope::validation {

// The text of validation.json: settings, prompts, claims with rules and verdicts, and every mean. It names no
// time and no path, so that the same prompts and settings give the same bytes, however often it was begun.
// Values that do not exist are null.
std::string report_json(const Report& report);

}  // namespace keyscope::validation
