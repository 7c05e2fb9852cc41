// A capture that dies at any one of its writes leaves every block that it had counted, exactly. This program
// replaces the C library's pwrite, ftruncate and fsync: it counts the calls of the file driver, and dies at a
// chosen one.

#include <set>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/recording/recording.hpp"
#include "tests/support/recording_comparison.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/synthetic_capture.hpp"

namespace {

constexpr long kNever = -1;
long writes_left = kNever;  // before the process dies
long n_writes = 0;

void count_write() {
  ++n_writes;
  if (writes_left == kNever) return;
  if (writes_left-- == 0) _exit(9);
}

}  // namespace

extern "C" ssize_t pwrite(int file, const void* buffer, size_t size, off_t offset) {
  count_write();
  return syscall(SYS_pwrite64, file, buffer, size, offset);
}
extern "C" int ftruncate(int file, off_t size) noexcept {
  count_write();
  return static_cast<int>(syscall(SYS_ftruncate, file, size));
}
extern "C" int fsync(int) { return 0; }
extern "C" int fdatasync(int) { return 0; }  // a process that dies takes nothing along that it has written

namespace keyscope::recording {
namespace {

// Two prompt blocks' worth of chunks: a run that ends early frees some when its datasets are cut.
SyntheticOptions early_end() {
  SyntheticOptions options;
  options.n_layers = 2;
  options.layers = {0, 1};
  options.keyless = {1};
  options.experts = {1};
  options.sinks = true;
  options.n_heads = 2;
  options.n_kv_heads = 1;
  options.head_dim = 2;
  options.n_prompt = 200;
  options.block_size = 40;
  options.budget = 50;
  options.max_generated = 400;
  options.n_generated = 4;
  return options;
}

// Both runs end early here: `max_generated` blocks of the first would take long to no purpose.
void send_all(RecordSink& sink, const SyntheticCapture& capture) {
  sink.begin(capture.plan());
  for (int run = 0; run < 2; ++run) {
    const int n_prompt_blocks = 5;
    for (int b = 0; b < n_prompt_blocks + 3; ++b) {
      sink.routing(capture.routing(run, b, 1));
      sink.block(capture.block(run, b));
      if (b + 1 == n_prompt_blocks) sink.prompt_done(capture.prompt_result(run));
    }
    TokenText generated = capture.generated(run);
    generated.id.resize(4);
    generated.offset.resize(5);
    generated.text.resize(generated.offset.back());
    sink.run_done(run, generated);
  }
  sink.end(true);
}

// Runs a capture that dies at write `at` after its layout is on the disk; gives the number of writes if it
// lives.
long capture_until(const SyntheticCapture& capture, const std::filesystem::path& path, long at) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    struct CountFromHere : RecordSink {
      CountFromHere(RecordSink& sink, long dies_at) : to(sink), dies(dies_at) {}
      void begin(std::shared_ptr<const RecordPlan> plan) override {
        to.begin(std::move(plan));
        n_writes = 0;
        writes_left = dies;
      }
      void block(std::shared_ptr<const BlockRecord> record) override { to.block(std::move(record)); }
      void routing(std::shared_ptr<const RoutingRecord> record) override { to.routing(std::move(record)); }
      void prompt_done(const PromptResult& result) override { to.prompt_done(result); }
      void run_done(int run, const TokenText& generated) override { to.run_done(run, generated); }
      void end(bool complete) override { to.end(complete); }
      RecordSink& to;
      long dies;
    };
    auto writer = make_recording_writer(path, false);
    CountFromHere sink(*writer, at);
    send_all(sink, capture);
    const long n = n_writes;
    _exit(::write(ends[1], &n, sizeof(n)) == sizeof(n) ? 0 : 1);
  }
  close(ends[1]);
  long n = 0;
  const bool lived = read(ends[0], &n, sizeof(n)) == sizeof(n);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return lived ? n : 0;
}

TEST(CrashedCapture, HoldsItsCountedBlocksWhateverTheWrite) {
  const SyntheticCapture capture(early_end());
  const test::ScratchFolder whole;
  const long total = capture_until(capture, whole.path() / "a.h5", kNever);
  ASSERT_GT(total, 500);
  // Every write of the end, where metadata moves, and some of the many before.
  std::set<long> places;
  for (long at = 0; at < total - 100; at += total / 30) places.insert(at);
  for (long at = total - 100; at < total; ++at) places.insert(at);
  std::set<std::int64_t> counted;
  for (const long at : places) {
    const test::ScratchFolder folder;
    const auto path = folder.path() / "a.h5";
    ASSERT_EQ(capture_until(capture, path, at), 0) << "survived write " << at << " of " << total;
    const auto recording = open_recording(path.string() + ".part");
    const auto info = recording->info();
    counted.insert(info->runs[0].blocks_done + info->runs[1].blocks_done);
    expect_holds_counted_blocks(*recording, capture);
    ASSERT_FALSE(HasFailure()) << "died at write " << at << " of " << total;
  }
  EXPECT_EQ(*counted.begin(), 0) << "no death before the first count";
  EXPECT_EQ(*counted.rbegin(), 16) << "no death after the last count";
}

}  // namespace
}  // namespace keyscope::recording
