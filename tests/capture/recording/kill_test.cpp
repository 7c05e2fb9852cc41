// A capture that is killed leaves every block but the one in flight, exactly.

#include <chrono>
#include <random>
#include <thread>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/recording/writer.hpp"
#include "tests/capture/recording/counted_blocks.hpp"
#include "tests/capture/recording/synthetic_capture.hpp"
#include "tests/scratch_folder.hpp"

namespace keyscope::recording {
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
