#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/dendrogram.hpp"
#include "app/figures/axis_ticks.hpp"

namespace keyscope::figures {

// How the rows and columns of a matrix of keys are ordered: by token position; so that similar keys stand
// side by side, which are the leaves of analysis::average_linkage on their cosines; or lives of tokens by
// what was lost with them, the attention that they would still have received.
enum class MatrixOrder { kPosition, kDendrogram, kLoss };

std::string_view order_name(MatrixOrder order);
std::span<const MatrixOrder> orders_of(std::string_view figure);  // those that it can have
MatrixOrder parse_order(std::string_view name);                   // throws UsageError

// Which token stands at each place of a matrix of tokens, where that is not the token's position. All lists
// have an entry per place, or none at all.
struct TokenOrder {
  std::vector<std::int32_t> token;      // token position
  std::vector<std::string> text;        // the token's bytes; empty: not known
  std::vector<std::uint8_t> retained;   // whether the cache still held it; empty: nothing was evicted
  std::vector<analysis::Merge> merges;  // of places instead of rows; empty: the order is of no tree
  bool rows_only = false;               // columns are no tokens

  std::int64_t size() const { return static_cast<std::int64_t>(token.size()); }
  // The token at a coordinate of the axis, -1 outside it.
  std::int32_t token_at(double coordinate) const;
  // Where a token stands, -1 where it does not: a search through all places.
  std::int64_t place_of(std::int64_t token_position) const;
};

// Of a tree drawn above its places: from the middles of two clusters up to the height at which they merge.
struct Bracket {
  double left = 0, right = 0;                // coordinates of the axis; a place's middle is its number + 1/2
  double left_height = 0, right_height = 0;  // where the clusters themselves were made
  double height = 0;
};
// In the order of the merges, so that the last one is the highest.
std::vector<Bracket> brackets_of(const TokenOrder& order);

// Places side by side that were all retained, or all evicted.
struct RetentionRun {
  std::int64_t first = 0, last = 0;  // one past the end
  bool retained = false;
};
std::vector<RetentionRun> retention_runs(const TokenOrder& order);

// Ticks in the middles of places, with the positions of the tokens there.
//   n_wanted: as of linear_ticks
std::vector<Tick> place_ticks(const TokenOrder& order, double low, double high, int n_wanted);

// A tick at every place, with the token's position and text, cut to what fits beside a plot.
std::vector<Tick> named_places(const TokenOrder& order, double low, double high);

}  // namespace keyscope::figures
