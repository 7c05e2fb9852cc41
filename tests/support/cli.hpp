#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

#include "tests/support/scratch_folder.hpp"

namespace keyscope::test {

// The built `keyscope`, running beside the test until it is told to end. Ended with the object if not before.
class CliProcess {
 public:
  // Starts it with these arguments in `folder`.
  explicit CliProcess(const std::vector<std::string>& arguments, const std::filesystem::path& folder = ".");
  ~CliProcess();
  CliProcess(const CliProcess&) = delete;
  CliProcess& operator=(const CliProcess&) = delete;

  // Sends the signal and waits for the end: exit status, or 128 + the signal that ended it.
  int end_by(int signal);

 private:
  pid_t child_;
};

// Returns once the file is there, or after half a minute.
void wait_for_file(const std::filesystem::path& file);

inline const std::string kDemoModel = KEYSCOPE_SOURCE_DIR "/assets/demo_model";

struct CliResult {
  int status = 0;  // exit status, or 128 + signal
  std::string out, err;
};

// Runs the built `keyscope` with these arguments, stdin from `input`, in `folder`.
CliResult run_cli(const std::vector<std::string>& arguments, const std::string& input = "",
                  const std::filesystem::path& folder = ".");

// Names a Python that has NumPy in KEYSCOPE_PYTHON, where one is not named yet: the first of python3 and the
// system's. False where there is none.
bool use_python_with_numpy();

}  // namespace keyscope::test
