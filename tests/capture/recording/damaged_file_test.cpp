// Files that are cut short, overwritten, or something else: refused, and nothing else happens.

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/capture/recording/hostile_file.hpp"

namespace keyscope::recording {
namespace {

using DamagedFile = HostileFile;

TEST_F(DamagedFile, OtherFilesAreNoRecordings) {
  std::ofstream(path_, std::ios::trunc) << "hello";
  expect_refused("", "is no HDF5 file");
  std::ofstream(path_, std::ios::trunc) << "";
  EXPECT_NE(message(), "");
  std::filesystem::remove(path_);
  H5Fclose(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  expect_refused("", "not a Keyscope recording");
}

TEST_F(DamagedFile, TruncatedAnywhereItIsRefused) {
  const auto size = std::filesystem::file_size(path_);
  for (int i = 0; i < 50; ++i) {
    std::filesystem::resize_file(path_, size * static_cast<std::uintmax_t>(49 - i) / 50);
    EXPECT_NE(message(), "") << i;
  }
}

// Most flips hit numbers, where any value is possible; none may do more than be refused. HDF5 1.10 itself
// reads out of bounds on some damaged heaps and attribute messages (about 1 in 1000 files here), so every
// file is read by a process of its own, and a few of these may die; an exception that is no FileError may not
// get out of one.
TEST_F(DamagedFile, FlippedBytesDoNoHarm) {
  std::ifstream file(path_, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(file), {}};
  std::mt19937_64 random(7);
  int n_refused = 0, n_died = 0;
  constexpr int kRounds = 100;
  for (int round = 0; round < kRounds; ++round) {
    std::string bad = good;
    // Half of them near the start, where the metadata is densest.
    const std::size_t range = round % 2 == 0 ? bad.size() : std::min<std::size_t>(bad.size(), 20000);
    for (int i = 0; i <= round % 4; ++i) bad[random() % range] = static_cast<char>(random());
    std::filesystem::remove(path_);  // some file systems wait for the disk when a file is replaced in place
    std::ofstream(path_, std::ios::binary).write(bad.data(), static_cast<std::streamsize>(bad.size()));
    const pid_t child = fork();
    if (child == 0) {
      try {
        _exit(message().empty() ? 0 : 1);
      } catch (...) {
        _exit(2);
      }
    }
    int status = 0;
    waitpid(child, &status, 0);
    n_refused += WIFEXITED(status) && WEXITSTATUS(status) == 1;
    n_died += !WIFEXITED(status);
    ASSERT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) > 1)
        << "round " << round << " let something else out";
  }
  EXPECT_GT(n_refused, 5);
  EXPECT_LE(n_died, kRounds / 50);
}

}  // namespace
}  // namespace keyscope::recording
