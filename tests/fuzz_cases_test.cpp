// Every fuzz target's function, without libFuzzer: over the seeds that its script makes (NAME_seeds.py beside
// it), and over the inputs that showed a fault once (cases/NAME there). It ends the process where one is
// there.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/files.hpp"
#include "tests/support/scratch_folder.hpp"

#define FUZZER(name, folder) extern "C" int name(const std::uint8_t* data, std::size_t size);
#include "fuzz_targets.inc"
#undef FUZZER

namespace keyscope {
namespace {

namespace fs = std::filesystem;

struct Fuzzer {
  const char* name;
  fs::path folder;
  int (*run)(const std::uint8_t* data, std::size_t size);
};

std::vector<Fuzzer> fuzzers() {
  return {
#define FUZZER(name, folder) {#name, folder, name},
#include "fuzz_targets.inc"
#undef FUZZER
  };
}

// Those of a folder, where it is there, in order.
std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code not_there;
  for (const auto& entry : fs::directory_iterator(folder, not_there)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

class FuzzCases : public testing::TestWithParam<Fuzzer> {
 protected:
  void run_all(const std::vector<fs::path>& files) const {
    for (const fs::path& file : files) {
      SCOPED_TRACE(file.string());
      const std::string bytes = read_file(file);
      const std::clock_t begin = std::clock();
      GetParam().run(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
      constexpr std::clock_t kSeconds = 5;  // of the processor; sanitizers take several times as long
      EXPECT_LT(std::clock() - begin, kSeconds * CLOCKS_PER_SEC);
    }
  }
};

TEST_P(FuzzCases, WhatWasFoundIsMended) { run_all(files_in(GetParam().folder / "cases" / GetParam().name)); }

TEST_P(FuzzCases, SeedsAreReadOrRefused) {
  const test::ScratchFolder seeds;
  const fs::path script = GetParam().folder / (std::string(GetParam().name) + "_seeds.py");
  ASSERT_TRUE(fs::exists(script)) << "a fuzzer without seeds begins with nothing";
  ASSERT_EQ(
      std::system(fmt::format("/usr/bin/python3 '{}' '{}'", script.string(), seeds.path().string()).c_str()),
      0);
  const auto files = files_in(seeds.path());
  EXPECT_FALSE(files.empty());
  run_all(files);
}

INSTANTIATE_TEST_SUITE_P(Of, FuzzCases, testing::ValuesIn(fuzzers()),
                         [](const auto& fuzzer) { return std::string(fuzzer.param.name); });

}  // namespace
}  // namespace keyscope
