#pragma once

#include <nlohmann/json_fwd.hpp>

#include "app/adoption/adoption.hpp"

namespace keyscope::adoption {

// Everything of the report, by names that docs/report.md explains; null for what is not known.
nlohmann::ordered_json adoption_json(const Adoption& adoption);

}  // namespace keyscope::adoption
