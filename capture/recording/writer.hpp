#pragma once

#include <filesystem>
#include <memory>

#include "capture/recording/records.hpp"

namespace keyscope::recording {

// Writes a recording while it happens, from one I/O thread of its own, by the `.part` protocol: all metadata
// before the first block, raw data and then the counter per block, each fsynced, a rename at the end. A call
// returns when what was handed in before it is on the disk: a kill loses at most the block in flight.
//   path: the recording's final place; `path` + ".part" is what is written to
//   replace: whether an existing file may be replaced: by the rename at the end, and only by a whole
//   recording, what was cut short stays in the `.part`; otherwise throws FileError if `path` exists, and from
//   any call once writing has failed (a full disk, say): what was committed by then stays readable in the
//   `.part` file
// A `.part` left by an earlier, killed capture is never overwritten unless `replace` is given.
std::unique_ptr<RecordSink> make_recording_writer(const std::filesystem::path& path, bool replace);

}  // namespace keyscope::recording
