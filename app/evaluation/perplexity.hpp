#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/evaluation/example.hpp"
#include "app/evaluation/task_report.hpp"
#include "app/figures/figure.hpp"
#include "capture/model/model.hpp"

namespace keyscope::evaluation {

// The scored positions of a window in bins of as equal size as whole positions allow, in order.
struct PositionBins {
  std::int64_t n_positions = 0;  // at least n_bins
  std::int64_t n_bins = 1;       // at least 1

  // Bin b holds scored positions begin(b), …, begin(b + 1) - 1, counted from 0.
  std::int64_t begin(std::int64_t bin) const { return bin * n_positions / n_bins; }
  std::int64_t size(std::int64_t bin) const { return begin(bin + 1) - begin(bin); }
};

// Mean of each bin.
//   values: (n_positions)
std::vector<double> bin_means(std::span<const double> values, const PositionBins& bins);

// The mean over all positions, from those of the bins.
double mean_of_bins(std::span<const double> means, const PositionBins& bins);

// Which text is read, and how.
struct PerplexityOptions {
  std::vector<std::filesystem::path> texts;
  std::int64_t length = 0;              // tokens of a window, its special token included
  std::optional<std::int64_t> stride;   // none: as long as text_windows allows, every token scored once
  std::optional<std::int64_t> windows;  // of each text, its first
  std::int64_t bins = 32;               // of positions, or as many as are scored where these are fewer
};

// Texts cut into windows, an example each: nothing is generated, and the tokens that text_windows scores are.
struct PerplexitySet {
  std::vector<Example> examples;
  PositionBins bins;
  std::int64_t first_scored = 1;  // position in a window that the first bin begins with
  std::int64_t n_scored = 0;      // tokens, all windows together
  std::int64_t n_bytes = 0;       // of their text
  std::int64_t n_left_out = 0;    // tokens at the ends of texts that are in no window
};

// The tokenizer's special token in front of a text, if it adds one, begins every window.
//   throws FileError where a text cannot be read, is no UTF-8 or shorter than a window, or the model has no
//   tokenizer; UsageError on a length, stride or number of bins that cannot be, and on a
//   file whose name is no UTF-8
PerplexitySet read_texts(const PerplexityOptions& options, const capture::Model& model);

// {"nll_nats": 3.1, "nll_nats 1-16": 4.0, …}: minus the mean of ln p over all scored tokens of a window, and
// over those at the positions of each bin.
Scorer perplexity_scorer(const PerplexitySet& set);

// The name of a bin's score: its first and its last position in the window.
std::string bin_score(const PerplexitySet& set, std::int64_t bin);

// Every option that the scores depend on, for the settings.
nlohmann::ordered_json perplexity_settings(const PerplexityOptions& options);

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

// Perplexity against position, a curve per policy in a band of its interval, and the same as a ratio to the
// full cache: two panels for each budget and block.
figures::Figure perplexity_figure(std::span<const PerplexityCell> cells, std::span<const GridPoint> grid,
                                  const PerplexitySet& set, const std::string& caption);

// One stretch of a text that a model reads from its beginning.
struct TextWindow {
  std::vector<std::int32_t> ids;  // `length`, the special token in front included
  std::int64_t first = 0;         // token of the text that its first one is, the special token not counted
  std::int64_t first_scored = 0;  // position in `ids` of the first token that is scored; at least 1
};

// How a text is cut.
struct WindowRule {
  std::int64_t length = 0;  // tokens of a window, the special token included; at least 2
  // Tokens that a window begins behind the one before it, which are the ones it scores, its last: 1 to the
  // number of its tokens that can be scored, all but the first.
  std::int64_t stride = 0;
  std::optional<std::int32_t> bos;  // in front of every window
};

// The largest stride: every token is scored once but for those that windows begin with.
std::int64_t longest_stride(const WindowRule& rule);

// All whole windows of a text, in order; what is left at its end is in none, so that all weigh the same.
// Empty for a text that has fewer tokens than a window.
//   ids: of the text, without special tokens
//   throws InvalidInput on a rule that cannot be
std::vector<TextWindow> text_windows(std::span<const std::int32_t> ids, const WindowRule& rule);

}  // namespace keyscope::evaluation
