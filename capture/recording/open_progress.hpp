#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "capture/recording/recording.hpp"

namespace keyscope::recording {

// Called on the thread that opens a recording, with the layers of all its runs that were checked, first none,
// and how many there are. What it throws ends the opening.
using OpenProgress = std::function<void(std::int64_t n_checked, std::int64_t n_layers)>;

// As open_recording(path), which checks what every layer of every run declares: of a large model on a slow
// disk this takes its time.
//   progress: may be empty
std::shared_ptr<Recording> open_recording(const std::string& path, const OpenProgress& progress);

}  // namespace keyscope::recording
