#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/evaluation/paired_scores.hpp"
#include "app/evaluation/perplexity.hpp"

namespace keyscope::evaluation {

// What a model makes of tokens. Perplexity is e to the mean of -ln p; means and intervals are made of -ln p,
// window by window, and then raised.
struct PerplexityPoints {
  ScoreMean nll_nats, perplexity;
  ScoreMean ratio;  // of the perplexity to that of the full cache with the same block, paired by windows
};

struct PerplexityCell {
  std::size_t point = 0;
  std::int64_t budget_rows = 0;  // N, the same for all windows
  PerplexityPoints all;
  ScoreMean bits_per_byte;              // of the scored tokens' text
  std::vector<PerplexityPoints> curve;  // by bins of positions
};

// One cell per grid point.
std::vector<PerplexityCell> perplexity_report(const ScoreTable& table, const PerplexitySet& set,
                                              std::uint64_t seed);

// "cells", with a "curve" of bins each, and what the text was.
nlohmann::ordered_json perplexity_json(std::span<const PerplexityCell> cells, std::span<const GridPoint> grid,
                                       const PerplexitySet& set);

// A line per grid point.
std::string perplexity_table(std::span<const PerplexityCell> cells, std::span<const GridPoint> grid);

}  // namespace keyscope::evaluation
