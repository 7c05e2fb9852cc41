#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "capture/recording/hdf5.hpp"

namespace keyscope::recording {

struct CopyOptions {
  hdf5::Shape shape = {};  // how much of it, from the front of every axis; empty: all
  int gzip = 0;            // 1 to 9, after shuffle; 0: the copy is not compressed
  std::function<void(std::uint64_t n_bytes)> on_slice = {};  // after every slice; may throw to stop
};

// Copies a dataset of numbers under its name into another file, in slices: memory stays bounded. Attributes
// stay behind.
//   throws FileError where it cannot be read or written, or holds something else than numbers
hdf5::Dataset copy_dataset(const hdf5::Group& from, hdf5::Group& to, const std::string& name,
                           const CopyOptions& options = {});

}  // namespace keyscope::recording
