#pragma once

#include <vector>

#include "app/validation/claims.hpp"

namespace keyscope::validation {

// Theorem 3.2 and Lemma 3.1, each a claim: whether it held, and how often its hypotheses applied. Lemma 3.1
// is judged as the paper states it; its proof's reading and the form without assumptions stand beside it.
std::vector<Claim> examine_bounds(Records records, const analysis::BootstrapOptions& options);

}  // namespace keyscope::validation
