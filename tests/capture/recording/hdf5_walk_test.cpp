#include "capture/recording/hdf5_walk.hpp"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "capture/recording/hdf5_node.hpp"
#include "tests/capture/recording/hostile_file.hpp"

namespace keyscope::recording::hdf5 {
namespace {

// Under the thread sanitizer what HDF5 reads beyond its memory is there.
#if defined(__SANITIZE_THREAD__)
constexpr bool kNothingCrashes = true;
#else
constexpr bool kNothingCrashes = false;
#endif

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr std::uint32_t kNoSuchObject = 0x7FFF'FFFF;  // of a heap: so far behind its end that it is nobody's

// Texts of attributes lie in global heaps: an attribute holds its text's length (4 bytes), the heap's address
// (8) and the object's number in it (4).
class DamagedHeap : public HostileFile {
 protected:
  std::string bytes() const { return read_file(path_); }
  void write(const std::string& changed) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << changed;
  }
  // Where references to the file's heaps stand.
  static std::vector<std::size_t> references(const std::string& file) {
    std::vector<std::size_t> found;
    for (std::size_t heap = file.find("GCOL"); heap != std::string::npos;
         heap = file.find("GCOL", heap + 4)) {
      const std::uint64_t address = heap;
      std::string wanted(sizeof(address), '\0');
      std::memcpy(wanted.data(), &address, sizeof(address));
      for (std::size_t at = file.find(wanted); at != std::string::npos; at = file.find(wanted, at + 1))
        found.push_back(at);
    }
    return found;
  }
  template <typename Number>
  static std::string with(std::string file, std::size_t at, Number number) {
    std::memcpy(file.data() + at, &number, sizeof(number));
    return file;
  }
};

TEST_F(DamagedHeap, AnObjectThatIsNotThereIsASentence) {
  const std::string sound = bytes();
  const auto places = references(sound);
  ASSERT_GT(places.size(), 50U);
  int n_refused = 0, n_crashes = 0;
  for (std::size_t i = 0; i < places.size(); i += places.size() / 50) {
    write(with(sound, places[i] + 8, kNoSuchObject));
    const std::string said = message();
    n_refused += said.empty() ? 0 : 1;  // not all are of texts that are read
    if (said.find("crashes HDF5") == std::string::npos) continue;
    EXPECT_THAT(said, AllOf(HasSubstr(path_.string()), HasSubstr("damaged at /entry"),
                            HasSubstr("attribute '"), HasSubstr("expected a file as it was written")));
    ++n_crashes;
  }
  EXPECT_GT(n_refused, 5);
  EXPECT_TRUE(n_crashes > 0 || kNothingCrashes) << "HDF5 has learnt to refuse this: look for another damage";
  write(sound);
  EXPECT_EQ(message(), "");
}

TEST_F(DamagedHeap, AHeapThatSaysToBeHugeTakesNoMemory) {
  const std::string sound = bytes();
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  for (std::size_t heap = sound.find("GCOL"); heap != std::string::npos;
       heap = sound.find("GCOL", heap + 4)) {
    write(with(sound, heap + 8, std::uint64_t{1} << 33U));
    EXPECT_THAT(message(), AnyOf(HasSubstr("asks for more than"), HasSubstr("cannot read"))) << heap;
  }
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 1 << 18) << "KiB";
}

// Whatever a byte of it says, this process goes on: in a file's metadata lie the addresses, sizes and trees.
TEST_F(DamagedHeap, NoByteBringsTheProcessDown) {
  const std::string sound = bytes();
  const std::size_t step = sound.size() / 100;
  std::size_t n_refused = 0;
  for (std::size_t at = 0; at < sound.size(); at += step)
    for (const char value : {'\x00', '\xFF'}) {
      write(with(sound, at, value));
      n_refused += message().empty() ? 0 : 1;
    }
  EXPECT_GT(n_refused, 2U);
}

TEST_F(DamagedHeap, WhatHasALongNameIsWalkedAsWell) {
  const std::string name(1000, 'k'), run = "/entry/runs/" + name;
  change([&](hid_t file) {
    ASSERT_GE(H5Lmove(file, "/entry/runs/keydiff", file, run.c_str(), H5P_DEFAULT, H5P_DEFAULT), 0);
    H5Ldelete(file, "/entry/runs/none", H5P_DEFAULT);
  });
  const std::string sound = bytes();
  ASSERT_EQ(message(), "");
  const auto places = references(sound);
  int n_crashes = 0;
  for (const std::size_t place : places) {
    write(with(sound, place + 8, kNoSuchObject));
    const std::string said = message();
    n_crashes +=
        said.find("crashes HDF5") != std::string::npos && said.find("kkkk") != std::string::npos ? 1 : 0;
  }
  EXPECT_TRUE(n_crashes > 0 || kNothingCrashes);
  write(sound);
  EXPECT_THAT(read_everything(path_.string() + "::" + name), HasSubstr("'" + name + "' is missing"));
}

TEST_F(DamagedHeap, APartIsWalkedWhereAFileHasMany) {
  change([](hid_t file) {
    for (int i = 0; i <= kMostParts; ++i) {
      const hid_t group =
          H5Gcreate2(file, ("more_" + std::to_string(i)).c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
      H5Gclose(group);
    }
  });
  const std::string sound = bytes();
  EXPECT_EQ(message(), "");
  const auto places = references(sound);
  int n_crashes = 0;
  for (std::size_t i = 0; i < places.size(); i += places.size() / 50) {
    write(with(sound, places[i] + 8, kNoSuchObject));
    n_crashes += message().find("crashes HDF5") == std::string::npos ? 0 : 1;
  }
  EXPECT_TRUE(n_crashes > 0 || kNothingCrashes);
}

// What the walk has read nobody has HDF5 read again: here it would look for objects that are not there, and
// crash.
TEST_F(DamagedHeap, TextsAreThoseThatTheWalkHasRead) {
  const std::string sound = bytes();
  const auto written = std::filesystem::last_write_time(path_);
  std::string changed = sound;
  int n_changed = 0;
  for (const std::size_t place : references(sound)) {
    write(with(sound, place + 8, kNoSuchObject));
    if (message().find("crashes HDF5") == std::string::npos) continue;  // of something else
    changed = with(changed, place + 8, kNoSuchObject);
    if (++n_changed == 5) break;
  }
  ASSERT_TRUE(n_changed == 5 || kNothingCrashes);
  write(sound);
  std::filesystem::last_write_time(path_, written);
  ASSERT_EQ(message(), "");
  write(changed);
  std::filesystem::last_write_time(path_, written);
  EXPECT_EQ(message(), "") << "and yet it is the file that was walked";
}

TEST(Walks, WhatIsNoFileIsNotTheirs) {
  EXPECT_NO_THROW(require_sound("/nowhere/at/all.h5"));
  EXPECT_NO_THROW(require_sound("/dev/null"));
}

// What survives the walk can crash HDF5 in this process, whose memory is another.
TEST_F(DamagedHeap, ACrashWhileItIsReadIsASentenceAsWell) {
  EXPECT_EXIT(
      {
        require_sound(path_);
        const std::string where = path_.string() + ": /entry";
        const Lock lock(where);
        raise(SIGSEGV);
      },
      ::testing::ExitedWithCode(1),
      "keyscope: .*: /entry: damaged: it crashes HDF5; expected a file as it was");
}

TEST_F(DamagedHeap, ACrashElsewhereIsNoneOfTheFiles) {
  EXPECT_EXIT(
      {
        require_sound(path_);
        {
          const std::string where = path_.string() + ": /entry";
          const Lock lock(where);
        }
        raise(SIGSEGV);
      },
      [](int status) { return !WIFEXITED(status) || WEXITSTATUS(status) != 0; },
      ::testing::Not(HasSubstr("damaged")));
}

// Damages that came from outside, where they are at hand.
TEST(Walks, KnownDamagesAreSentences) {
  const char* const data = std::getenv("KEYSCOPE_TEST_DATA");
  const std::filesystem::path cases =
      data == nullptr ? std::filesystem::path() : std::filesystem::path(data) / "../cases/recordings";
  if (!std::filesystem::is_directory(cases)) GTEST_SKIP() << "KEYSCOPE_TEST_DATA has no ../cases/recordings";
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "HDF5 reads beyond its memory in these, for which the sanitizer ends a process";
#endif
  for (const auto& entry : std::filesystem::directory_iterator(cases))
    EXPECT_EXIT(
        {
          read_everything(entry.path().string());
          std::_Exit(0);
        },
        ::testing::ExitedWithCode(0), "")
        << entry.path();
}

}  // namespace
}  // namespace keyscope::recording::hdf5
