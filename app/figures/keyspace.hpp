#pragma once

#include <cstdint>
#include <vector>

#include "analysis/matrix_view.hpp"
#include "app/figures/figure.hpp"
#include "app/figures/keyspace_data.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

struct KeyspaceSelection {
  std::vector<int> runs;  // indices; one panel each, all in one basis
  int layer = 0;
  int kv_head = 0;
  std::int64_t block = -1;  // -1: each run's last prompt block
  KeyspaceLook look = {};
};

// Keys in the plane (or space) of their principal components, or against the anchor: retained as filled
// discs, evicted as rings, at the end of a block, with the anchor (mean key) and the mean query of the tokens
// seen by then, and circles about the ten keys that KeyDiff scores highest among these. With two or more
// evicting runs a last panel shows the retained keys of all of them together (Fig. 5 d).
//   throws as fit_keyspace_basis and key_values, UsageError on an unknown run or block, and FileError on
//   queries where none were recorded
Figure keyspace_figure(const recording::Recording& recording, const KeyspaceSelection& selection);

// Positions of the keys that KeyDiff scores highest, -cos(k_i, mean key), the highest first and the lower
// position of equal ones: what the paper marks in its Fig. 4 and 11.
//   keys: (n_keys, head_dim); at most `count` positions, and none where the mean has no direction
std::vector<std::int32_t> top_keydiff_keys(const MatrixView& keys, std::size_t count);

}  // namespace keyscope::figures
