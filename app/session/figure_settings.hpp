#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "app/figures/catalogue.hpp"

namespace keyscope::session {

// How figures are made, where they have the choice: kept while other heads and figures are looked at.
struct FigureSettings {
  bool ranks = false;                                            // score-attention: ranks instead of values
  bool linear = false;                                           // attention: a linear colour scale
  bool retained_only = false;                                    // cosine-matrix: only the retained keys
  figures::MatrixOrder order = figures::MatrixOrder::kPosition;  // cosine-matrix
  std::optional<figures::Reduction> reduction{};                 // of large matrices; empty: the figure's own
  bool operator==(const FigureSettings&) const = default;
};

// Keys that the window orders by a dendrogram: so many take half a second and 32 MiB.
inline constexpr std::int64_t kMostOrdered = 4096;

// Those that a figure understands; the others are as they are by default.
FigureSettings settings_of(std::string_view figure, const FigureSettings& settings);

void apply(const FigureSettings& settings, figures::FigureRequest& request);

// As options of `keyscope figure` and `keyscope view`: ` --ranks`.
std::string settings_options(const FigureSettings& settings);

}  // namespace keyscope::session
