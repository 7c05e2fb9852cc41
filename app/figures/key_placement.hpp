#pragma once

#include <Eigen/Core>

#include "analysis/matrix_view.hpp"
#include "app/figures/figure.hpp"
#include "app/figures/keyspace_data.hpp"
#include "app/figures/keyspace_look.hpp"

namespace keyscope::figures {

// How many coordinates a point has: 3 in space, else 2.
int dimensions_of(Projection projection);

// Where rows lie against an anchor: (n_rows, 2) of cosine and norm. A row or anchor of norm zero has cosine
// 0.
//   rows: (n_rows, head_dim); anchor: (head_dim)
//   source: KeyDiff (arXiv 2504.15364), Section 4: a key's score is the first coordinate, turned round
RowMatrixF anchor_coordinates(const MatrixView& rows, const Eigen::VectorXd& anchor);

// Coordinates of rows of one head, keys or queries: (n_rows, dimensions_of(projection)).
//   anchor: (head_dim) the mean of the keys seen by the moment that is shown. Principal components do not ask
//   for it, so there points stand still from block to block; in the view against the anchor they move with
//   it.
RowMatrixF place_rows(Projection projection, const KeyspaceBasis& basis, const Eigen::VectorXd& anchor,
                      const MatrixView& rows);

// Names the axes, and says whether a unit is as long on all of them.
void set_axes(Panel& panel, Projection projection, const KeyspaceBasis& basis);

}  // namespace keyscope::figures
