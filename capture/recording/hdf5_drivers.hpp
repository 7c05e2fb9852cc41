#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "capture/recording/hdf5_dataset.hpp"

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

// A file that HDF5 writes to, through a driver of this project's own. When a write fails (a full disk), HDF5
// 1.10 neither closes the file nor lets go of it: it tries again at exit, and crashes there. This driver
// therefore never learns of it: the first failure is kept here, from then on nothing is written any more, and
// writers ask `error` where it matters. What lay on the disk by then stays as it was.
struct OutputState {
  int descriptor = -1;
  int error = 0;        // errno of the first call that failed; 0: none
  bool silent = false;  // nothing is written any more
  std::string action;   // what that call was doing
};

// Properties for H5Fcreate that write through `state`, which must outlive the file. The file is created anew,
// and locked against other writers where the file system has locks. Call under a Lock.
void use_output_driver(hid_t file_access, OutputState& state, const std::string& where);

// What a dataset of a file from elsewhere must not be. Both throw FileError; call under a Lock.

// Virtual, kept in external files, or behind a filter other than shuffle, deflate and checksums. To be asked
// before anything else of a dataset: already the extent of a virtual one opens other files.
void refuse_foreign_storage(hid_t dataset, const std::string& where);

// Declared far larger than what is stored of it, or stored in more bytes than the file has; where it lies in
// one piece, and was written, declared larger at all.
//   needed: the part of its shape that counts; empty: all
void refuse_overdeclared(const Dataset& dataset, const Shape& needed, std::uint64_t file_bytes);

}  // namespace keyscope::recording::hdf5
