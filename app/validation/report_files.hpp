#pragma once

#include <span>

#include "app/validation/validation_report.hpp"
#include "app/validation/result_folder.hpp"
#include "capture/model/model.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::validation {

// Writes validation.json, validation.html, validation.h5 and figures/*.svg, each as a whole.
//   model, prompts: for the figure file, which says where its figures come from: of all prompts, in order
//   provenance: likewise; settings, model and prompts are added to it
//   throws FileError where one cannot be written
void write_report(const Report& report, const capture::Model& model, std::span<const Prompt> prompts,
                  recording::Provenance provenance, const ResultFolder& folder);

}  // namespace keyscope::validation
