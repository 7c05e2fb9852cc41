#pragma once

#include "capture/recording/hdf5.hpp"
#include "capture/recording/open_progress.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::recording {

// Reads what a recording says of itself, and checks all that it declares: every dataset's type and shape
// against the others, offsets and ids, blocks against tokens. Keys, queries, values and attention are not
// read.
//   progress: may be empty
//   throws FileError naming file and dataset or attribute, what was found and what was expected
RecordingInfo read_info(const hdf5::File& file, const std::string& source, const OpenProgress& progress = {});

}  // namespace keyscope::recording
