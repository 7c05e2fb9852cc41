#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/synthetic_capture.hpp"

namespace keyscope::recording {

// A folder in which a recording is to become `out.h5`.
class OutFile : public ::testing::Test {
 protected:
  std::filesystem::path part() const { return out_.string() + ".part"; }

  static void write_text(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  static std::string message_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const FileError& error) {
      return error.what();
    }
    return "no FileError";
  }

  test::ScratchFolder folder_;
  std::filesystem::path out_ = folder_.path() / "out.h5";
  SyntheticCapture capture_;
};

}  // namespace keyscope::recording
