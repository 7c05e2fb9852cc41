#pragma once

#include <functional>
#include <string>

#include "capture/recording/hdf5.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::recording {

// What a recording says of one run; its layers' datasets are held to it and not read.
//   group: of the run; info: of the recording, but for its runs
//   layer_done: called after every layer
//   throws FileError naming the file and the object where anything is missing, has another type or shape than
//   it should, or contradicts the rest
RunInfo read_run(const hdf5::Group& group, const std::string& name, const RecordingInfo& info,
                 const std::function<void()>& layer_done);

}  // namespace keyscope::recording
