#pragma once

#include "app/evaluation/phonebook.hpp"
#include "app/evaluation/task_report.hpp"
#include "app/figures/figure.hpp"

namespace keyscope::evaluation {

// A row of JSON cells for every number of entries.
std::vector<nlohmann::ordered_json> phonebook_cells(const PhonebookTask& task);

// "phonebook": the share of exact answers against the number of entries, with its intervals; a curve for
// every policy, budget and block.
//   source: KeyDiff (arXiv 2504.15364), Table 17
figures::Figure phonebook_figure(const TaskReport& report, const PhonebookTask& task);

}  // namespace keyscope::evaluation
