#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "capture/recording/hdf5.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::recording {

// A run of a joint recording: that of a recording which has one.
struct JointRun {
  std::filesystem::path file;  // complete
  std::string name;            // of the run in the joint recording: "keydiff-2"
};

// How the numbers of a joint recording lie in its file.
enum class JointStorage {
  kVirtual,  // what has a row per head or token stays in the recordings, which must stay where they are
  kCopied
};

// What of a recording keeps its run from standing in one with that of the first: "it is of another prompt";
// of the first itself, what keeps it from being one. Empty: nothing.
std::string joint_refusal(const RecordingInfo& info, const RecordingInfo& first);

// Writes an NXentry that is a recording with the runs of several: of one model and prompt, which recorded the
// same of the same layers. Everything else but the runs is that of the first.
//   root: of the file that is written; it lies in `folder`
//   entry: its name, which open_recording takes behind the file's: "FILE::entry_2"
//   runs: at least one
//   progress: called now and then with the number of runs that are written; what it throws ends the work; may
//   be empty
//   throws FileError naming the file that cannot be read, or does not go with the first, saying why
void write_joint_recording(hdf5::Group& root, const std::filesystem::path& folder, const std::string& entry,
                           std::span<const JointRun> runs, JointStorage storage,
                           const std::function<void(std::int64_t n_runs)>& progress = {});

}  // namespace keyscope::recording
