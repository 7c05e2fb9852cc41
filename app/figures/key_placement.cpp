#include "app/figures/key_placement.hpp"

#include "analysis/similarity.hpp"

namespace keyscope::figures {

int dimensions_of(Projection projection) { return projection == Projection::kPca3d ? 3 : 2; }

RowMatrixF anchor_coordinates(const MatrixView& rows, const Eigen::VectorXd& anchor) {
  RowMatrixF coordinates(rows.rows(), 2);
  coordinates.col(0) = analysis::cosines_to(rows, anchor).cast<float>();
  coordinates.col(1) = analysis::row_norms(rows).cast<float>();
  return coordinates;
}

RowMatrixF place_rows(Projection projection, const KeyspaceBasis& basis, const Eigen::VectorXd& anchor,
                      const MatrixView& rows) {
  return projection == Projection::kAnchor ? anchor_coordinates(rows, anchor)
                                           : project_rows(basis, rows, dimensions_of(projection));
}

void set_axes(Panel& panel, Projection projection, const KeyspaceBasis& basis) {
  panel.equal_aspect = projection != Projection::kAnchor;
  if (projection == Projection::kAnchor) {
    panel.x.label = "cosine to the anchor";
    panel.y.label = "norm";
    return;
  }
  panel.x.label = component_label(basis, 0);
  panel.y.label = component_label(basis, 1);
  if (projection == Projection::kPca3d) panel.z.label = component_label(basis, 2);
  const int n = dimensions_of(projection);
  panel.explained_variance.assign(basis.explained.begin(), basis.explained.begin() + n);
}

}  // namespace keyscope::figures
