#pragma once

#include <memory>
#include <string>

#include "capture/recording/hdf5_handle.hpp"

namespace keyscope::recording::hdf5 {

// A file that HDF5 writes to, through a driver of this project's own. When a write fails (a full disk), HDF5
// 1.10 neither closes the file nor lets go of it: it tries again at exit, and crashes there. This driver
// therefore never tells it: the first failure is kept here, from then on nothing is written any more, and
// whoever writes asks `error` where it matters. What lay on the disk by then stays as it was.
struct OutputState {
  int descriptor = -1;
  int error = 0;        // errno of the first call that failed; 0: none
  bool silent = false;  // nothing is written any more
  std::string action;   // what that call was doing
};

// Properties for H5Fcreate that write through `state`, which must outlive the file. The file is created anew,
// and locked against other writers where the file system has locks. Call under a Lock.
void use_output_driver(hid_t file_access, OutputState& state, const std::string& where);

}  // namespace keyscope::recording::hdf5
