#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/evaluation/example.hpp"
#include "app/evaluation/position_bins.hpp"
#include "capture/model/model.hpp"

namespace keyscope::evaluation {

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

}  // namespace keyscope::evaluation
