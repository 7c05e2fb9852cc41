#pragma once

#include "capture/recording/hdf5.hpp"
#include "capture/recording/records.hpp"

namespace keyscope::recording {

// Which model read which prompt, and how: what recordings and figure files both say.
struct Origin {
  Provenance provenance;
  ModelInfo model;
  TokenText prompt;
};

// Creates `provenance`, `model` and `tokens` below `entry`.
void write_origin(hdf5::Group& entry, const Origin& origin);

// The prompt may be empty: figures of benchmarks on random keys have none.
//   throws FileError naming file and attribute or dataset, what was found and what was expected
Origin read_origin(const hdf5::Group& entry);

}  // namespace keyscope::recording
