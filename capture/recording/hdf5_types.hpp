#pragma once

#include "capture/recording/hdf5_dataset.hpp"

namespace keyscope::recording::hdf5 {

// IEEE half precision, little-endian. h5py reads it as float16. Call under a Lock.
Handle make_float16();

// The type as it lies in a file: little-endian. Call under a Lock.
Handle file_type(ElementType type);

// What an HDF5 type is to this project; byte order does not matter. Call under a Lock.
ElementType element_type(hid_t type);

}  // namespace keyscope::recording::hdf5
