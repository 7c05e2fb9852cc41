#pragma once

#include "analysis/policies/definition.hpp"

namespace keyscope::analysis {

// StreamingLLM's rule (arXiv 2309.17453): the tokens at positions 0 … first-1 stay, and the most recent ones.
// A budget below `first` keeps positions 0 … N-1. A row's score is its position.
PolicyDefinition sink_definition();

}  // namespace keyscope::analysis
