#pragma once

#include <string>
#include <vector>

#include "capture/recording/recording.hpp"

namespace keyscope::figures {

// What a run is called beside the others of its recording: the policy, and where several runs have it, the
// options, budget and block size in which they differ: "keydiff, anchor median". The run's own name where
// nothing tells them apart.
std::string run_label(const recording::RecordingInfo& info, int run);

// Runs as the places of an axis: by their labels, or where one is too long to be read there by the runs' own
// names, with a key to them for the caption: " keydiff-2: anchor median, recent 0." Without one it is empty.
struct RunNames {
  std::vector<std::string> names;
  std::string key;
};
RunNames name_runs(const recording::RecordingInfo& info, const std::vector<int>& runs);

// What all evicting runs among these have in common, for a caption: ", N = 64, B = 128", or the part of it
// that they share.
std::string describe_budget(const recording::RecordingInfo& info, const std::vector<int>& runs);

}  // namespace keyscope::figures
