#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "app/figures/figure.hpp"
#include "base/errors.hpp"
#include "capture/recording/hdf5.hpp"

namespace keyscope::figures {

// Fills an NXdata group with a panel's numbers, so that it opens as a plot: signal, axes, errors of none.
//   title: of the plot
void write_panel(recording::hdf5::Group& group, const Panel& panel, const std::string& title);

// Reads the numbers back into a panel whose names and looks are known.
//   throws FileError where datasets are missing, or their sizes contradict each other
void read_panel(const recording::hdf5::Group& group, Panel& panel);

// A name for a group or dataset, made of letters, digits, '_' and '-'; never empty.
std::string nexus_name(const std::string& text);

// Lists of numbers in a figure's group: what its points, lines and axes are kept in.
inline constexpr hsize_t kListChunk = 65'536;

// The file's type of a list of T.
template <typename T>
inline constexpr recording::hdf5::ElementType kTypeOf = recording::hdf5::ElementType::kOther;
template <>
inline constexpr recording::hdf5::ElementType kTypeOf<float> = recording::hdf5::ElementType::kFloat32;
template <>
inline constexpr recording::hdf5::ElementType kTypeOf<double> = recording::hdf5::ElementType::kFloat64;
template <>
inline constexpr recording::hdf5::ElementType kTypeOf<std::int32_t> = recording::hdf5::ElementType::kInt32;
template <>
inline constexpr recording::hdf5::ElementType kTypeOf<std::uint8_t> = recording::hdf5::ElementType::kUInt8;

template <typename T>
recording::hdf5::Dataset write_list(recording::hdf5::Group& group, const std::string& name,
                                    const std::vector<T>& values, const std::string& long_name,
                                    const std::string& units = "") {
  recording::hdf5::DatasetOptions options;
  options.chunk = {std::clamp<hsize_t>(values.size(), 1, kListChunk)};
  options.max_shape = {H5S_UNLIMITED};
  options.shuffle = true;
  options.gzip = 4;
  options.cache_bytes = kListChunk * sizeof(T);
  recording::hdf5::Dataset dataset = group.create_dataset(name, kTypeOf<T>, {values.size()}, options);
  dataset.write(std::span<const T>(values));
  dataset.set_text("long_name", long_name);
  dataset.set_text("units", units);
  return dataset;
}

//   expected: how many entries it must have
//   throws FileError on another shape, naming the dataset
template <typename T>
std::vector<T> read_list(const recording::hdf5::Group& group, const std::string& name,
                         std::optional<std::size_t> expected = {}) {
  const recording::hdf5::Dataset dataset = group.open_dataset(name);
  if (dataset.shape().size() != 1 || (expected && dataset.shape()[0] != *expected))
    throw FileError(fmt::format("{}: shape is {}; expected {}", dataset.where(),
                                recording::hdf5::format_shape(dataset.shape()),
                                expected ? fmt::format("({})", *expected) : std::string("one dimension")));
  return dataset.read<T>();
}

}  // namespace keyscope::figures
