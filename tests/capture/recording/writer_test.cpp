// What the writer refuses, what it leaves behind when it is interrupted, and what a full disk does to it.

#include "capture/recording/writer.hpp"

#include <fstream>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/errors.hpp"
#include "capture/recording/memory_recording.hpp"
#include "capture/recording/recording.hpp"
#include "tests/capture/recording/recording_comparison.hpp"
#include "tests/capture/recording/synthetic_capture.hpp"
#include "tests/scratch_folder.hpp"

namespace keyscope::recording {
namespace {

using ::testing::HasSubstr;

class Writer : public ::testing::Test {
 protected:
  std::filesystem::path part() const { return out_.string() + ".part"; }

  static void write_text(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  static std::string read_text(const std::filesystem::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
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

TEST_F(Writer, RefusesAnExistingFile) {
  write_text(out_, "precious");
  EXPECT_THAT(message_of([&] { make_recording_writer(out_, false); }), HasSubstr("exists already"));
  EXPECT_EQ(read_text(out_), "precious");
}

TEST_F(Writer, RefusesThePartOfAKilledCapture) {
  write_text(part(), "precious");
  EXPECT_THAT(message_of([&] { make_recording_writer(out_, false); }), HasSubstr("killed"));
  EXPECT_EQ(read_text(part()), "precious");
}

TEST_F(Writer, ReplacesOnlyAtTheEnd) {
  write_text(out_, "precious");
  write_text(part(), "stale");
  auto writer = make_recording_writer(out_, true);
  capture_.send(*writer);
  EXPECT_EQ(read_text(out_), "precious");
  writer->end(true);
  EXPECT_TRUE(open_recording(out_.string())->info()->complete);
  EXPECT_FALSE(std::filesystem::exists(part()));
}

TEST_F(Writer, LeavesAFileThatAppearsMeanwhile) {
  auto writer = make_recording_writer(out_, false);
  capture_.send(*writer);
  write_text(out_, "precious");
  EXPECT_THAT(message_of([&] { writer->end(true); }), HasSubstr(".part"));
  EXPECT_EQ(read_text(out_), "precious");
  EXPECT_TRUE(open_recording(part().string())->info()->complete);
}

TEST_F(Writer, RefusesASecondWriterEvenWithReplace) {
  auto first = make_recording_writer(out_, false);
  first->begin(capture_.plan());
  auto second = make_recording_writer(out_, true);
  EXPECT_THAT(message_of([&] { second->begin(capture_.plan()); }), HasSubstr("another capture"));
  first->block(capture_.block(0, 0));
  first->end(false);
  EXPECT_EQ(open_recording(out_.string())->info()->runs[0].blocks_done, 1);
}

TEST_F(Writer, RefusesPlacesThatCannotBe) {
  EXPECT_THAT(message_of([&] { make_recording_writer(folder_.path(), false); }), HasSubstr("folder"));
  EXPECT_THAT(message_of([&] { make_recording_writer(folder_.path() / "no" / "out.h5", false); }),
              HasSubstr("folder does not exist"));
}

TEST_F(Writer, KeepsWhatCameBeforeAnInterrupt) {
  for (const std::int64_t n_blocks : {1, 3, 7, 9, 12, 15, 21}) {
    const test::ScratchFolder folder;
    const auto out = folder.path() / "out.h5";
    auto writer = make_recording_writer(out, false);
    capture_.send(*writer, n_blocks);
    writer->end(false);
    auto memory = MemoryRecording::create();
    capture_.send(*memory, n_blocks);
    const auto recording = open_recording(out.string());
    EXPECT_FALSE(recording->info()->complete);
    expect_same(*memory, *recording);
  }
}

TEST_F(Writer, AnInterruptedStartReplacesNothing) {
  write_text(out_, "precious");
  auto writer = make_recording_writer(out_, true);
  writer->begin(capture_.plan());
  writer->end(false);
  EXPECT_EQ(read_text(out_), "precious");
  EXPECT_FALSE(std::filesystem::exists(part()));
}

TEST_F(Writer, AnInterruptedCaptureReplacesNothing) {
  write_text(out_, "precious");
  auto writer = make_recording_writer(out_, true);
  capture_.send(*writer, 4);
  writer->end(false);
  EXPECT_EQ(read_text(out_), "precious");
  EXPECT_EQ(open_recording(part().string())->info()->runs[0].blocks_done, 4);
}

TEST_F(Writer, FollowsALinkAndLeavesIt) {
  const auto target = folder_.file("target.h5"), link = folder_.file("link.h5");
  write_text(target, "old");
  std::filesystem::create_symlink(target, link);
  auto writer = make_recording_writer(link, true);
  capture_.send(*writer);
  writer->end(true);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(open_recording(target.string())->info()->complete);
}

TEST_F(Writer, RefusesWhatIsNoFile) {
  ASSERT_EQ(mkfifo(out_.c_str(), 0600), 0);
  EXPECT_THAT(message_of([&] { make_recording_writer(out_, true); }), HasSubstr("no regular file"));
  EXPECT_TRUE(std::filesystem::is_fifo(out_));
}

TEST_F(Writer, DestroyedWithoutAnEndLeavesThePart) {
  {
    auto writer = make_recording_writer(out_, false);
    capture_.send(*writer, 4);
  }
  EXPECT_FALSE(std::filesystem::exists(out_));
  EXPECT_EQ(open_recording(part().string())->info()->runs[0].blocks_done, 4);
}

TEST_F(Writer, GenerationWithoutAWordPerBlockIsKnownAtItsEnd) {
  SyntheticOptions options;
  options.next_ids = false;
  const SyntheticCapture capture(options);
  auto writer = make_recording_writer(out_, false);
  capture.send(*writer);
  writer->end(true);
  auto memory = MemoryRecording::create();
  capture.send(*memory);
  expect_same(*memory, *open_recording(out_.string()));
}

TEST_F(Writer, HoldsTextThatIsLongerThanItsRoom) {
  auto writer = make_recording_writer(out_, false);
  writer->begin(capture_.plan());
  for (int b = 0; b < capture_.n_blocks(0) - 5; ++b) writer->block(capture_.block(0, b));
  writer->prompt_done(capture_.prompt_result(0));
  TokenText generated{{5}, std::string(100000, 'x'), {0, 100000}};
  writer->run_done(0, generated);
  writer->end(false);
  EXPECT_EQ(open_recording(out_.string())->info()->runs[0].generated.text, generated.text);
}

TEST_F(Writer, ReportsARecordThatDoesNotFit) {
  auto writer = make_recording_writer(out_, false);
  writer->begin(capture_.plan());
  writer->block(capture_.block(0, 0));
  EXPECT_THROW(writer->block(capture_.block(0, 2)), InvalidInput);
  auto broken = std::make_shared<BlockRecord>(*capture_.block(0, 1));
  broken->layers[0].queries.pop_back();
  EXPECT_THROW(writer->block(broken), InvalidInput);
  writer->block(capture_.block(0, 1));
  writer->end(false);
  EXPECT_EQ(open_recording(out_.string())->info()->runs[0].blocks_done, 2);
}

TEST_F(Writer, IsReadableWhileItWrites) {
  auto writer = make_recording_writer(out_, false);
  capture_.send(*writer, 5);
  const auto recording = open_recording(part().string());
  EXPECT_LE(recording->info()->runs[0].blocks_done, 5);
  writer->end(false);
}

// Limits hold for a whole process, so each of these runs in one of its own. Leaving it normally is part of
// the test: HDF5 must not stumble over the file at exit.
class FullDisk : public Writer {
 protected:
  FullDisk() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  static void limit_file_size(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, bytes};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) std::exit(2);
  }
};

TEST_F(FullDisk, AtTheStartLeavesNothing) {
  EXPECT_EXIT(
      {
        limit_file_size(100000);
        const std::string message = message_of([&] {
          auto writer = make_recording_writer(out_, false);
          writer->begin(capture_.plan());
        });
        const bool clear = message.find("File too large") != std::string::npos;
        std::exit(clear && !std::filesystem::exists(part()) && !std::filesystem::exists(out_) ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(FullDisk, InTheMiddleKeepsWhatWasCounted) {
  EXPECT_EXIT(
      {
        auto writer = make_recording_writer(out_, false);
        capture_.send(*writer, 3);
        while (open_recording(part().string())->info()->runs[0].blocks_done < 3) {
        }
        limit_file_size(1000);
        message_of([&] {
          for (int b = 3; b < 7; ++b) writer->block(capture_.block(0, b));
        });
        const std::string at_end = message_of([&] { writer->end(true); });
        const bool clear = at_end.find("File too large") != std::string::npos;
        const bool once = message_of([&] { writer->end(true); }) == "no FileError";
        const auto info = open_recording(part().string())->info();
        std::exit(clear && once && info->runs[0].blocks_done == 3 && !std::filesystem::exists(out_) ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(FullDisk, AtTheEndKeepsWhatWasCounted) {
  EXPECT_EXIT(
      {
        auto writer = make_recording_writer(out_, false);
        capture_.send(*writer);
        const auto all_counted = [&] {
          const auto info = open_recording(part().string())->info();
          return info->runs[1].blocks_done == capture_.n_blocks(1) && info->runs[1].generated.size() == 4;
        };
        while (!all_counted()) {
        }
        limit_file_size(1000);
        const std::string message = message_of([&] { writer->end(true); });
        std::exit(message.find("File too large") != std::string::npos && all_counted() ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace keyscope::recording
