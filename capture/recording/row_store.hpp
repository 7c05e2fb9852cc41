#pragma once

#include <span>
#include <string>

#include "capture/recording/hdf5.hpp"
#include "capture/recording/store_type.hpp"

namespace keyscope::recording {

// Datasets of keys, queries and values as a StoreType has them. Of bfloat16 the file says so: such a dataset
// is of float32 and has the text attribute `rounded_to`, "bfloat16".

hdf5::Dataset create_row_dataset(hdf5::Group& group, const std::string& name, StoreType store,
                                 const hdf5::Shape& shape, const hdf5::DatasetOptions& options);

// Marks a float32 dataset whose values are rounded already, a copy say; nothing to do for other types.
void mark_store(hdf5::Dataset& dataset, StoreType store);

// How a dataset from anywhere lies in its file.
//   throws FileError on a `rounded_to` that is not known, or on another type than float32
StoreType store_of(const hdf5::Dataset& dataset);

// The hyperslab of `count` rows from `start` on, rounded to nearest, ties to even.
void store_rows(hdf5::Dataset& dataset, StoreType store, std::span<const float> rows,
                const hdf5::Shape& start, const hdf5::Shape& count);

// Values read from a dataset against what it says of itself.
//   throws FileError where one of them is no bfloat16
void check_rounded(const hdf5::Dataset& dataset, std::span<const float> values);

}  // namespace keyscope::recording
