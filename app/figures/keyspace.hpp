#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <Eigen/Core>

#include "analysis/matrix_view.hpp"
#include "app/figures/figure.hpp"
#include "app/figures/keyspace_data.hpp"

namespace keyscope::figures {

// What a panel of the key space shows of one head of one run at the end of a block.
struct KeyspaceContent {
  std::int64_t n_seen = 0;                  // tokens by then
  std::vector<std::int32_t> retained = {};  // positions of those that are in the cache, ascending
  KeyValues colours = {};                   // of the tokens seen
  RowMatrixF queries = {};  // (group_size · n_seen, columns) placed, query head after query head; or no rows
  // (head_dim) means of the keys and of the group's queries seen by then; no entries: not shown.
  Eigen::VectorXd anchor = {}, mean_query = {};
  std::vector<std::int32_t> top_keys = {};  // positions of the keys to circle
};

// What the window has otherwise than a page.
struct KeyspaceStyle {
  std::int64_t n_keys = -1;  // that the size of points goes by; -1: those seen
  float mark_scale = 1;      // of the sizes on a page
  bool only_placed = false;  // points without a place, for a coordinate is not finite, are left out
};

// The panel, for the window and for pages: queries, evicted rings, retained discs, circles about top keys,
// anchor and mean query. Its note says how many keys are retained, and where some have no place or no value.
//   coordinates: where the keys lie, (n_seen or more, columns_of(projection) or more)
Panel keyspace_panel(const KeyspaceBasis& basis, Projection projection, const RowMatrixF& coordinates,
                     const KeyspaceContent& content, const KeyspaceStyle& style = {});

// Keys are counted in hexagons from now on, and the panel says so.
void count_in_hexagons(Panel& panel);

// What the axes are, for a caption: whose keys and queries they were fitted on, or what the anchor is.
std::string describe_axes(const recording::RecordingInfo& info, const KeyspaceBasis& basis,
                          Projection projection);

// Positions of the keys that KeyDiff scores highest, -cos(k_i, mean key), the highest first and the lower
// position of equal ones: what the paper marks in its Fig. 4 and 11.
//   keys: (n_keys, head_dim); at most `count` positions, and none where the mean has no direction
std::vector<std::int32_t> top_keydiff_keys(const MatrixView& keys, std::size_t count);

}  // namespace keyscope::figures
