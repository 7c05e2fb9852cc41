#pragma once

#include "analysis/policies/definition.hpp"

namespace keyscope::analysis {

// The rows of most weight in a CUR decomposition's sampling stay.
//   score: ‖k‖² ‖v‖²
PolicyDefinition cur_definition();

}  // namespace keyscope::analysis
