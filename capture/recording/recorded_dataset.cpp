#include "capture/recording/recorded_dataset.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "analysis/errors.hpp"

namespace keyscope::recording {
namespace {

[[noreturn]] void refuse(const hdf5::Dataset& found, const std::string& expected) {
  throw FileError(fmt::format("{}: found {} {}; expected {}", found.where(), hdf5::name_of(found.type()),
                              hdf5::format_shape(found.shape()), expected));
}

}  // namespace

hdf5::Dataset open_dataset(const hdf5::Group& group, const std::string& name,
                           std::initializer_list<hdf5::ElementType> types, const hdf5::Shape& shape,
                           const Roomy& roomy) {
  hdf5::Dataset dataset = group.open_dataset(name, 0, shape);
  hdf5::Shape found = dataset.shape();
  for (const std::size_t axis : roomy)
    if (axis < std::min(found.size(), shape.size())) found[axis] = std::min(found[axis], shape[axis]);
  if (std::find(types.begin(), types.end(), dataset.type()) == types.end() || found != shape)
    refuse(dataset, fmt::format("{} {}{}", hdf5::name_of(*types.begin()), hdf5::format_shape(shape),
                                roomy.empty() ? "" : " or more tokens"));
  return dataset;
}

hdf5::Dataset open_list(const hdf5::Group& group, const std::string& name, hdf5::ElementType type) {
  hdf5::Dataset dataset = group.open_dataset(name);
  if (dataset.type() != type || dataset.shape().size() != 1)
    refuse(dataset, fmt::format("{} in one dimension", hdf5::name_of(type)));
  return dataset;
}

}  // namespace keyscope::recording
