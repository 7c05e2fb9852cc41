#pragma once

#include <filesystem>
#include <span>

#include "app/adoption/adoption.hpp"
#include "app/adoption/task.hpp"
#include "app/validation/prompts_file.hpp"
#include "capture/model/model.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::adoption {

// Before anything is measured for a report in OUT: one of other tasks that is there is not replaced unless it
// may be; what may be discarded goes first, so that no report stands beside answers that it was not made of.
//   throws FileError where a report of other tasks is there, or, whatever may be discarded, a report.json
//   that is none of this program's
void make_way(const std::filesystem::path& out, std::span<const Task> tasks, bool discard);

// Writes OUT/report.json, report.html, report.h5 and figures/*.svg, each as a whole, over earlier ones.
//   prompts: of the diagnosis, for the figure file, which says where its figures come from
//   provenance: likewise; model, seed and device are added to it
//   throws FileError where one cannot be written
void write_adoption(const Adoption& adoption, const capture::Model& model,
                    std::span<const validation::Prompt> prompts, recording::Provenance provenance,
                    const std::filesystem::path& out);

}  // namespace keyscope::adoption
