#pragma once

#include <string>
#include <vector>

#include "app/measures/head_measures.hpp"

namespace keyscope::measures {

// What `analyze --csv` writes: a line of names, then one line per run, layer and KV head with the numbers of
// `analyze --json` under the same names; `retained` is their number there, `pca_explained` two columns. A
// value that does not exist is empty. Fields as RFC 4180 has them, lines ending in \n.
std::string measures_csv(const recording::RecordingInfo& info, const std::vector<RunMeasures>& runs);

}  // namespace keyscope::measures
