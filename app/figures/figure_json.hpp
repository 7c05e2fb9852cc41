#pragma once

#include <nlohmann/json_fwd.hpp>

#include "app/figures/figure.hpp"

namespace keyscope::figures {

// Everything of a figure but its numbers: names, labels, looks and the view. In a figure file it stands in
// the attribute `keyscope_figure`; the numbers are datasets.
nlohmann::json figure_to_json(const Figure& figure);

// The figure again, with empty data.
//   throws nlohmann::json::exception or InvalidInput where something is missing or of another kind
Figure figure_from_json(const nlohmann::json& json);

}  // namespace keyscope::figures
