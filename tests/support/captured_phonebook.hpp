#pragma once

#include <string>

#include <gtest/gtest.h>

#include "tests/support/cli.hpp"

namespace keyscope::test {

// A suite on one recording, `path("r.h5")`: 120 tokens of a phonebook on the demo model, without eviction and
// by two policies that keep 40, in blocks of 32.
class CapturedPhonebook : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new ScratchFolder;
    const CliResult result =
        run_cli({"capture",      "--quiet",   "--dtype",       "float32",
                 "--model",      kDemoModel,  "--prompt-file", kDemoModel + "/prompts/phonebook.txt",
                 "--max-tokens", "120",       "--policy",      "none",
                 "--policy",     "keydiff",   "--policy",      "sink",
                 "--budget",     "40",        "--block",       "32",
                 "--out",        path("r.h5")});
    ASSERT_EQ(result.status, 0) << result.err;
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::string path(const std::string& name) { return (folder_->path() / name).string(); }

 private:
  inline static ScratchFolder* folder_ = nullptr;
};

}  // namespace keyscope::test
