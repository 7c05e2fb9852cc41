#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <Eigen/Core>

#include "analysis/matrix_view.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::figures {

// The principal axes that one head's keys are shown in.
struct KeyspaceBasis {
  int run = 0;  // whose keys and queries it was fitted on
  int layer = 0;
  int kv_head = 0;
  bool with_queries = false;      // false: queries were not recorded, keys alone
  Eigen::VectorXd mean;           // (head_dim) joint mean
  RowMatrixD axes;                // (head_dim, 3) orthonormal columns, largest variance first; zero past rank
  std::vector<double> explained;  // (3) share of the total variance along each axis; NaN without variance
};

// Fits the axes on the prompt's keys, and all queries of the KV head's group if recorded, of the `none` run
// (else of the first run), so that points stand still when block or policy changes: Fig. 4, 5, 8-11 of the
// paper. Over no tokens at all the axes are zero.
//   throws UsageError on a layer or head that is not there, FileError when keys were not recorded
KeyspaceBasis fit_keyspace_basis(const recording::Recording& recording, int layer, int kv_head);

// Nearly the same axes from a sixteenth of the keys and queries, spread over the prompt in stretches: in a
// fraction of the time, where all of them are many.
//   throws as fit_keyspace_basis
KeyspaceBasis sketch_keyspace_basis(const recording::Recording& recording, int layer, int kv_head);

// Coordinates of rows in the basis: (n, components), components 1 to 3.
//   rows: (n, head_dim)
RowMatrixF project_rows(const KeyspaceBasis& basis, const MatrixView& rows, int components);

// "PC 1 (43.2 %)", with the share of the variance; component from 0.
std::string component_label(const KeyspaceBasis& basis, int component);

// All queries of a KV head's group for the run's first `count` tokens, query head after query head:
// (group_size * count, head_dim).
RowMatrixF group_queries(const recording::Recording& recording, int run, int layer, int kv_head,
                         std::int64_t count);

}  // namespace keyscope::figures
