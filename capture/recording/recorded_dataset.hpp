#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "capture/recording/hdf5.hpp"

namespace keyscope::recording {

// Axes along which a dataset may be longer than what is read of it. A recording that was not completed has
// room for blocks that never came; and a capture killed while it cut that room away has it in some datasets
// only.
using Roomy = std::vector<std::size_t>;

// Opens a dataset that must have one of `types` and this shape, but for its roomy axes.
//   throws FileError naming file and dataset, what was found and what was expected
hdf5::Dataset open_dataset(const hdf5::Group& group, const std::string& name,
                           std::initializer_list<hdf5::ElementType> types, const hdf5::Shape& shape,
                           const Roomy& roomy = {});

// The same for a 1-D dataset of any length.
hdf5::Dataset open_list(const hdf5::Group& group, const std::string& name, hdf5::ElementType type);

}  // namespace keyscope::recording
