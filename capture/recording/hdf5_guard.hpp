#pragma once

#include <cstdint>
#include <string>

#include "capture/recording/hdf5_dataset.hpp"

namespace keyscope::recording::hdf5 {

// What a dataset of a file from elsewhere must not be. Both throw FileError; call under a Lock.

// Virtual, kept in external files, or behind a filter other than shuffle, deflate and checksums. To be asked
// before anything else of a dataset: already the extent of a virtual one opens other files.
void refuse_foreign_storage(hid_t dataset, const std::string& where);

// Declared far larger than what is stored of it, or stored in more bytes than the file has.
//   needed: the part of its shape that counts; empty: all
void refuse_overdeclared(const Dataset& dataset, const Shape& needed, std::uint64_t file_bytes);

}  // namespace keyscope::recording::hdf5
