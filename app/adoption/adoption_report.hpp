#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/adoption/adoption.hpp"
#include "app/adoption/tasks.hpp"
#include "app/evaluation/example.hpp"
#include "app/figures/figure.hpp"
#include "app/results/html_page.hpp"
#include "app/results/out_folder.hpp"
#include "app/results/prompts.hpp"
#include "capture/model/model.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::adoption {

// What is seen of keys and attention at a budget, "25%", stands in this folder of OUT; answers in one for
// each task, by its name.
std::string geometry_folder(const std::string& budget);

// Whether a report writes a file of OUT, or all files of the folder in OUT that it lies in.
//   name: from OUT on
bool is_of_report(const std::filesystem::path& name);

// Before anything is measured for a report in OUT: writes OUT/settings.json, which distinguishes answers of
// other settings, and files of others. What may be discarded goes first, with all that was made of it.
//   returns what holds OUT for this report
//   throws FileError as results::OutFolder does, and, whatever may be discarded, where the results there are
//   of another command
[[nodiscard]] results::OutFolder claim_folder(const std::filesystem::path& out,
                                              const evaluation::Settings& settings,
                                              std::span<const Task> tasks, bool discard);

// Writes OUT/report.json, report.html, report.h5 and figures/*.svg, each as a whole, over earlier ones.
//   prompts: of the diagnosis, for the figure file, which says where its figures come from
//   provenance: likewise; model, seed and device are added to it
//   throws FileError where one cannot be written
void write_adoption(const Adoption& adoption, const capture::Model& model,
                    std::span<const results::Prompt> prompts, recording::Provenance provenance,
                    const std::filesystem::path& out);

// Takes away the pictures of an earlier report that this one has not, once its own have their names.
void remove_older_figures(const Adoption& adoption, const std::filesystem::path& out);

// Everything of the report, by names that docs/report.md explains; null for what is not known.
nlohmann::ordered_json adoption_json(const Adoption& adoption);

// The pictures of a report: "accuracy-by-memory" (a panel a task: score against memory, one line per policy,
// the full cache and the tolerance as lines), where they were measured "first-token-by-memory" and
// "redundancy-by-memory", and "prompt-lengths".
std::vector<figures::Figure> adoption_figures(const Adoption& adoption);

// What they can be called.
std::vector<std::string_view> adoption_figure_names();

// The report as one page of HTML that needs no network.
std::string adoption_page(const Adoption& adoption, std::span<const results::PagePicture> pictures);

}  // namespace keyscope::adoption
