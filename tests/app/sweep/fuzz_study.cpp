// libFuzzer target: any bytes, read as each file of a study: what is planned, its folder's files, and a
// merged study.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "app/figures/nexus.hpp"
#include "app/sweep/study.hpp"
#include "app/sweep/study_file.hpp"
#include "app/sweep/sweep_folder.hpp"
#include "base/errors.hpp"
#include "capture/recording/hdf5_walk.hpp"
#include "capture/recording/recording.hpp"
#include "tests/capture/recording/read_everything.hpp"
#include "tests/support/scratch_folder.hpp"

namespace {

namespace fs = std::filesystem;

constexpr const char* kCell = "0123456789abcdef0123456789abcdef";

void write(const fs::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush()) std::abort();
}

// One sentence about what is wrong is what a damaged file should give.
template <typename Read>
void attempt(Read read) {
  try {
    read();
  } catch (const keyscope::FileError&) {  // NOLINT(bugprone-empty-catch)
  }
}

void read_merged(const fs::path& path) {
  attempt([&] {
    const keyscope::sweep::StudyFile study(path);
    study.n_in_state("done");
    study.lines(kCell);
  });
  attempt([&] { keyscope::figures::read_figures(path); });
  attempt([&] {
    for (const std::string& entry : keyscope::recording::recording_entries(path.string()))
      keyscope::recording::read_everything(path.string() + "::" + entry);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const keyscope::test::ScratchFolder scratch;
  static const keyscope::sweep::SweepFolder folder(scratch.path());
  static const bool made = fs::create_directories(folder.result(kCell).parent_path()) &&
                           fs::create_directories(folder.failure(kCell).parent_path());
  if (!made) std::abort();
  keyscope::recording::hdf5::walk_files(false);
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const fs::path study = scratch.path() / "study";
  write(study, input);
  if (input.starts_with("\x89HDF")) {
    read_merged(study);
    return 0;
  }
  attempt([&] {
    for (const auto& job : keyscope::sweep::read_study(study).jobs) job.words();
  });
  // The plan is the first line, its cells what follows.
  const std::size_t line = std::min(input.find('\n'), input.size());
  write(scratch.path() / "plan.json", input.substr(0, line));
  write(scratch.path() / "cells.jsonl", input.substr(std::min(line + 1, input.size())));
  attempt([&] {
    const keyscope::sweep::Plan plan = folder.read();
    keyscope::sweep::CellReader cells(folder, plan);
    while (cells.next()) {
    }
  });
  write(folder.result(kCell), input);
  attempt([&] { keyscope::sweep::read_result(folder, kCell); });
  write(folder.failure(kCell), input);
  attempt([&] { keyscope::sweep::read_failure(folder, kCell); });
  return 0;
}
