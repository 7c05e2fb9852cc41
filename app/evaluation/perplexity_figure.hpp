#pragma once

#include <span>
#include <string>

#include "app/evaluation/perplexity_report.hpp"
#include "app/figures/figure.hpp"

namespace keyscope::evaluation {

// Perplexity against position, a curve per policy in a band of its interval, and the same as a ratio to the
// full cache: two panels for each budget and block.
figures::Figure perplexity_figure(std::span<const PerplexityCell> cells, std::span<const GridPoint> grid,
                                  const PerplexitySet& set, const std::string& caption);

}  // namespace keyscope::evaluation
