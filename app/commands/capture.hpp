#pragma once

#include <filesystem>
#include <vector>

#include "capture/inference/capture.hpp"

namespace keyscope::commands {

// The command line of this process as a shell would read it back; set once by `main`.
void set_command_line(int argc, char** argv);
const std::string& command_line();

// Says on stderr what a capture will read, hold and write.
//   throws Error when disk or memory is short
void print_plan(const capture::Model& model, const recording::RecordPlan& plan,
                const std::filesystem::path& out, bool quiet);

struct CaptureTarget {
  std::filesystem::path out;
  bool replace = false;
  bool quiet = false;
  bool keeps_cut = true;  // whether one that Ctrl-C cuts short gets its name; else OUT.part is left
};

// Captures into a recording with progress on stderr; Ctrl-C ends it within one block and keeps what was done,
// in OUT or, where that is an older recording's name, in OUT.part. Within an OutputsTogether, a whole one
// gets its name with the others.
//   throws Cancelled then, saying where that is
std::vector<capture::RunOutcome> capture_to_file(const capture::Model& model,
                                                 const capture::CaptureOptions& options,
                                                 const CaptureTarget& target);

}  // namespace keyscope::commands
