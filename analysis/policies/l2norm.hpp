#pragma once

#include "analysis/policies/definition.hpp"

namespace keyscope::analysis {

// Keys of small norm stay (Devoto et al., arXiv 2406.11430).
//   score: -‖k‖ to five significant digits: RoPE keeps norms, so that repeated tokens tie exactly in layer 0,
//   and rounding must not break such ties
//   skip=s   the first s layers are never evicted; the authors' example has 2
PolicyDefinition l2norm_definition();

}  // namespace keyscope::analysis
