#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "capture/recording/hdf5_handle.hpp"

namespace keyscope::recording::hdf5 {

// Properties for H5Fopen that read through a driver of this project's own: text of variable length lies in
// global heaps, and HDF5 1.10 loops for ever, or reads beyond them, where a damaged one says that an object
// has no size or more than there is. The driver refuses to read such a heap. Call under a Lock.
void use_input_driver(hid_t file_access, const std::string& where);

// Whether a global heap collection can be walked from its first object to its end.
//   bytes: of the file from the collection's signature on, all of it or its beginning
//   length_size: bytes of a length in this file, as its superblock says: 2, 4 or 8
//   room: bytes from there to the end of the file
bool is_sound_heap(std::span<const std::byte> bytes, std::size_t length_size, std::uint64_t room);

}  // namespace keyscope::recording::hdf5
