#include <chrono>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/outputs_together.hpp"
#include "capture/recording/recording.hpp"
#include "tests/support/recording_comparison.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/synthetic_capture.hpp"

namespace keyscope::recording {

// What the writer refuses, what it leaves behind when it is interrupted, and what a full disk does to it.

namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Writer : public ::testing::Test {
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

TEST_F(Writer, RefusesAnExistingFile) {
  write_text(out_, "precious");
  EXPECT_THAT([&] { make_recording_writer(out_, false); },
              ThrowsMessage<FileError>(HasSubstr("exists already")));
  EXPECT_EQ(read_file(out_), "precious");
}

TEST_F(Writer, ReplacesOnlyAtTheEnd) {
  write_text(out_, "precious");
  write_text(part(), "stale");
  auto writer = make_recording_writer(out_, true);
  capture_.send(*writer);
  EXPECT_EQ(read_file(out_), "precious");
  writer->end(true);
  EXPECT_TRUE(open_recording(out_.string())->info()->complete);
  EXPECT_FALSE(std::filesystem::exists(part()));
}

TEST_F(Writer, LeavesAFileThatAppearsMeanwhile) {
  auto writer = make_recording_writer(out_, false);
  capture_.send(*writer);
  write_text(out_, "precious");
  EXPECT_THAT([&] { writer->end(true); }, ThrowsMessage<FileError>(HasSubstr(".part")));
  EXPECT_EQ(read_file(out_), "precious");
  EXPECT_TRUE(open_recording(part().string())->info()->complete);
}

TEST_F(Writer, ReplacesNoPipeThatAppearsMeanwhile) {
  auto writer = make_recording_writer(out_, true);
  capture_.send(*writer);
  ASSERT_EQ(mkfifo(out_.c_str(), 0600), 0);
  EXPECT_THAT([&] { writer->end(true); },
              ThrowsMessage<FileError>(::testing::AllOf(HasSubstr("no regular file"),
                                                        HasSubstr("; it is in " + part().string()))));
  EXPECT_TRUE(std::filesystem::is_fifo(out_));
  EXPECT_TRUE(open_recording(part().string())->info()->complete);
}

TEST_F(Writer, RefusesASecondWriterEvenWithReplace) {
  auto first = make_recording_writer(out_, false);
  first->begin(capture_.plan());
  auto second = make_recording_writer(out_, true);
  EXPECT_THAT([&] { second->begin(capture_.plan()); },
              ThrowsMessage<FileError>(HasSubstr("another capture")));
  first->block(capture_.block(0, 0));
  first->end(false);
  EXPECT_EQ(open_recording(out_.string())->info()->runs[0].blocks_done, 1);
}

TEST_F(Writer, RefusesASecondWriterUntilTheFirstHasItsName) {
  for (const bool compress : {false, true}) {
    SyntheticOptions options;
    options.compress = compress;
    const SyntheticCapture capture(options);
    OutputsTogether outputs;
    auto first = make_recording_writer(out_, true);
    capture.send(*first);
    first->end(true);
    auto second = make_recording_writer(out_, true);
    EXPECT_THAT([&] { second->begin(capture.plan()); },
                ThrowsMessage<FileError>(HasSubstr("another capture")));
    outputs.commit();
    second = make_recording_writer(out_, true);
    EXPECT_NO_THROW(second->begin(capture.plan()));
    second->end(false);
  }
  EXPECT_TRUE(open_recording(out_.string())->info()->complete);
}

TEST_F(Writer, RefusesPlacesThatCannotBe) {
  EXPECT_THAT([&] { make_recording_writer(folder_.path(), false); },
              ThrowsMessage<FileError>(HasSubstr("folder")));
  EXPECT_THAT([&] { make_recording_writer(folder_.path() / "no" / "out.h5", false); },
              ThrowsMessage<FileError>(HasSubstr("folder does not exist")));
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

TEST_F(Writer, KeepsSinksAndExpertsThatCameBeforeAnInterrupt) {
  const SyntheticCapture capture(sinks_and_experts());
  for (const std::int64_t n_blocks : {1, 6, 7, 9, 15, 21}) {
    const test::ScratchFolder folder;
    const auto out = folder.path() / "out.h5";
    auto writer = make_recording_writer(out, false);
    capture.send(*writer, n_blocks);
    writer->end(false);
    const auto recording = open_recording(out.string());
    expect_holds_counted_blocks(*recording, capture);
    ASSERT_FALSE(HasFailure()) << n_blocks << " blocks";
  }
}

TEST_F(Writer, RefusesExpertsThatCannotBe) {
  const SyntheticCapture capture(sinks_and_experts());
  auto writer = make_recording_writer(out_, false);
  writer->begin(capture.plan());
  auto routing = *capture.routing(0, 0, 1);
  const auto refused = [&](const RoutingRecord& record) {
    EXPECT_THROW(writer->routing(std::make_shared<RoutingRecord>(record)), InvalidInput);
  };
  auto broken = routing;
  broken.layer = 0;
  refused(broken);  // it has none
  broken = routing;
  broken.experts[3] = 8;
  refused(broken);
  broken = routing;
  broken.weights.pop_back();
  refused(broken);
  broken = routing;
  broken.first = 100;
  refused(broken);
}

TEST_F(Writer, AnInterruptedStartReplacesNothing) {
  write_text(out_, "precious");
  auto writer = make_recording_writer(out_, true);
  writer->begin(capture_.plan());
  writer->end(false);
  EXPECT_EQ(read_file(out_), "precious");
  EXPECT_FALSE(std::filesystem::exists(part()));
}

TEST_F(Writer, AnInterruptedCaptureReplacesNothing) {
  write_text(out_, "precious");
  auto writer = make_recording_writer(out_, true);
  capture_.send(*writer, 4);
  writer->end(false);
  EXPECT_EQ(read_file(out_), "precious");
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
  EXPECT_THAT([&] { make_recording_writer(out_, true); },
              ThrowsMessage<FileError>(HasSubstr("no regular file")));
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

// A capture that is killed leaves every block but the one in flight, exactly.

namespace {

SyntheticOptions many_blocks() {
  SyntheticOptions options;
  options.n_prompt = 160;
  options.block_size = 4;
  options.budget = 16;
  options.attention = false;
  options.max_generated = 20;
  options.n_generated = 12;
  return options;
}

// Hands everything on, and says through a pipe when the layout is on the disk and when a block was handed in.
class Announcing : public RecordSink {
 public:
  Announcing(RecordSink& to, int pipe) : to_(to), pipe_(pipe) {}
  void begin(std::shared_ptr<const RecordPlan> plan) override { to_.begin(std::move(plan)), announce(); }
  void block(std::shared_ptr<const BlockRecord> record) override { to_.block(std::move(record)), announce(); }
  void prompt_done(const PromptResult& result) override { to_.prompt_done(result); }
  void run_done(int run, const TokenText& generated) override { to_.run_done(run, generated); }
  void end(bool complete) override { to_.end(complete); }

 private:
  void announce() const {
    if (write(pipe_, "!", 1) != 1) _exit(1);
  }
  RecordSink& to_;
  int pipe_;
};

// A capture in a child process that is killed a moment after it has handed in its n-th block.
void capture_and_kill(const SyntheticCapture& capture, const std::filesystem::path& path, int n_blocks,
                      std::chrono::microseconds delay) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto writer = make_recording_writer(path, false);
    Announcing sink(*writer, ends[1]);
    capture.send(sink);
    sink.end(true);
    _exit(0);
  }
  close(ends[1]);
  char byte = 0;
  for (int i = 0; i <= n_blocks; ++i) ASSERT_EQ(read(ends[0], &byte, 1), 1) << "block " << i;
  std::this_thread::sleep_for(delay);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  close(ends[0]);
}

TEST(KilledCapture, LosesAtMostTheBlockInFlight) {
  const SyntheticCapture capture(many_blocks());
  const auto n_blocks = static_cast<int>(capture.n_blocks(0) + capture.n_blocks(1));
  std::mt19937 random(20240607);
  std::uniform_int_distribution<int> block(0, n_blocks), delay_us(0, 30000);
  for (int round = 0; round < 24; ++round) {
    const test::ScratchFolder folder;
    const auto path = folder.path() / "killed.h5";
    const int at = block(random);
    capture_and_kill(capture, path, at, std::chrono::microseconds(delay_us(random)));
    const bool finished = std::filesystem::exists(path);
    const auto recording = open_recording(finished ? path.string() : path.string() + ".part");
    const auto info = recording->info();
    EXPECT_TRUE(info->complete || !finished);
    // When the n-th block has been taken, only that one may still be on its way to the disk.
    EXPECT_GE(info->runs[0].blocks_done + info->runs[1].blocks_done, at - 1);
    expect_holds_counted_blocks(*recording, capture);
    ASSERT_FALSE(HasFailure()) << "round " << round << ", killed at block " << at << " with "
                               << info->runs[0].blocks_done << " and " << info->runs[1].blocks_done
                               << " counted";
  }
}

}  // namespace

}  // namespace keyscope::recording
