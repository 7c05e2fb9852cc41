#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "app/figures/figure.hpp"
#include "app/validation/report_page.hpp"

namespace keyscope::validation {

// Draws every figure as NAME.svg into a folder, made if it is not there, over earlier ones; a page shows the
// very files that lie beside it.
//   throws FileError where one cannot be written
std::vector<PagePicture> draw_pictures(std::span<const figures::Figure> figures,
                                       const std::filesystem::path& folder);

}  // namespace keyscope::validation
