#pragma once

#include <span>
#include <string>

#include "app/validation/validation_report.hpp"

namespace keyscope::validation {

// A picture of the page.
struct PagePicture {
  std::string title;  // also what a screen reader says
  std::string svg;
};

// The text of validation.html: one page that opens offline and refers to nothing outside it. Verdicts first,
// each with its rule; then pictures, the findings by layer, the policies, and the prompts.
std::string report_page(const Report& report, std::span<const PagePicture> pictures);

}  // namespace keyscope::validation
