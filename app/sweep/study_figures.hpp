#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "app/figures/figure.hpp"

namespace keyscope::sweep {

// Numbers of cells that stand at one place of the study.
struct Sample {
  std::string command;  // "eval niah"
  std::string measure;  // "recall"
  std::string model;
  std::string policy;  // as it was asked for: "keydiff:anchor=median"
  std::string budget;  // likewise: "25%"; empty: nothing was evicted
  std::int64_t block = 0;
  std::vector<double> values = {};  // finite
};

// What a study has of one command, a figure a measure. Where policies evict: the mean over cells, with its 95
// % bootstrap interval, against the budget, a line a policy, a panel for every model and block size, and the
// full cache as a line across. What the full cache alone has: against the models.
//   samples: of different places
//   study: its name, for captions
//   n_missing: cells without a result, for captions
std::vector<figures::Figure> study_figures(std::span<const Sample> samples, const std::string& study,
                                           std::int64_t n_missing);

}  // namespace keyscope::sweep
