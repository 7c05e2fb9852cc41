#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/scratch_folder.hpp"

namespace keyscope::test {

inline const std::string kDemoModel = KEYSCOPE_SOURCE_DIR "/assets/demo_model";

struct CliResult {
  int status = 0;  // exit status, or 128 + signal
  std::string out, err;
};

// Runs the built `keyscope` with these arguments, stdin from `input`, in `folder`.
CliResult run_cli(const std::vector<std::string>& arguments, const std::string& input = "",
                  const std::filesystem::path& folder = ".");

}  // namespace keyscope::test
