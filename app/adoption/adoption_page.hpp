#pragma once

#include <span>
#include <string>

#include "app/adoption/adoption.hpp"
#include "app/validation/report_page.hpp"

namespace keyscope::adoption {

// The report as one page of HTML that needs no network.
std::string adoption_page(const Adoption& adoption, std::span<const validation::PagePicture> pictures);

}  // namespace keyscope::adoption
