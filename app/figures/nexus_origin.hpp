#pragma once

#include "app/figures/nexus.hpp"
#include "capture/recording/hdf5.hpp"

namespace keyscope::figures {

// `/entry/provenance`, `/entry/model` and `/entry/tokens`, as a recording has them.
void write_origin(recording::hdf5::Group& entry, const FigureFileOrigin& origin);

//   throws FileError where they are missing or contradict themselves
FigureFileOrigin read_origin(const recording::hdf5::Group& entry);

}  // namespace keyscope::figures
