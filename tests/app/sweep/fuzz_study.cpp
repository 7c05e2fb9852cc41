// libFuzzer target: the files of a study. The input's first byte says which of them the rest is: what is
// planned, a file of its folder, or a merged study.

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
#include "tests/support/fuzzed.hpp"
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

void read_planned(const fs::path& path) {
  attempt([&] {
    for (const auto& job : keyscope::sweep::read_study(path).jobs) job.words();
  });
}

// The plan is the first line, its cells what follows.
void read_plan(const keyscope::sweep::SweepFolder& folder) {
  attempt([&] {
    const keyscope::sweep::Plan plan = folder.read();
    keyscope::sweep::CellReader cells(folder, plan);
    while (cells.next()) {
    }
  });
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
  if (size == 0) return 0;
  const std::string_view rest = keyscope::test::as_text(data + 1, size - 1);
  const fs::path study = scratch.path() / "study";
  const auto [plan, cells] = keyscope::test::first_line(rest);
  switch (static_cast<char>(*data)) {
    case 's':
      write(study, rest);
      read_planned(study);
      break;
    case 'p':
      write(scratch.path() / "plan.json", plan);
      write(scratch.path() / "cells.jsonl", cells);
      read_plan(folder);
      break;
    case 'r':
      write(folder.result(kCell), rest);
      attempt([&] { keyscope::sweep::read_result(folder, kCell); });
      break;
    case 'f':
      write(folder.failure(kCell), rest);
      attempt([&] { keyscope::sweep::read_failure(folder, kCell); });
      break;
    case 'm':
      write(study, rest);
      read_merged(study);
      break;
    default:
      break;
  }
  return 0;
}
