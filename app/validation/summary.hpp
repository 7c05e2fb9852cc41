#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/statistics.hpp"
#include "app/validation/prompt_record.hpp"
#include "app/validation/quantity.hpp"

namespace keyscope::validation {

// What the prompts are: the samples of every mean, in the order of the prompts file.
using Records = std::span<const PromptRecord>;

// One number a prompt, of those prompts that have it.
std::vector<double> samples_of(Records records, const Quantity& quantity, std::string_view run,
                               int layer = -1);

// Paired: run `a` minus run `b`, prompt by prompt and head by head.
std::vector<double> differences_of(Records records, const Quantity& quantity, std::string_view a,
                                   std::string_view b, int layer = -1);

// The mean of one quantity in one run, over the heads of one layer or (-1) of all.
struct SummaryRow {
  const Quantity* quantity = nullptr;
  std::string run;
  int layer = -1;
  analysis::BootstrapMean mean;
};

// The layers of the records, ascending.
std::vector<int> layers_of(Records records);

// Every quantity of every run that has it, over all heads and layer by layer. Rows without a prompt are left
// out.
std::vector<SummaryRow> summarise(Records records, const analysis::BootstrapOptions& options);

// The row, or null if there is none.
const SummaryRow* find_row(std::span<const SummaryRow> rows, std::string_view quantity, std::string_view run,
                           int layer = -1);

}  // namespace keyscope::validation
