// Opening, making figures and exporting: how far they are, and how they are called off.

#include <filesystem>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/session/settled_session.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::session {
namespace {

using ::testing::HasSubstr;

// Reads of keys wait until the gate is opened, once one of them has been told to.
class GatedRecording final : public SyntheticRecording {
 public:
  using SyntheticRecording::SyntheticRecording;

  RowMatrixF keys(int run, int layer, int kv_head, std::int64_t first, std::int64_t count) const override {
    if (shut_) {
      if (!waiting_.exchange(true)) reached_.set_value();
      opened_.wait();
    }
    return SyntheticRecording::keys(run, layer, kv_head, first, count);
  }
  void shut() { shut_ = true; }
  void wait_for_reader() { reached_.get_future().wait(); }
  void open() { gate_.set_value(); }

 private:
  std::atomic<bool> shut_ = false;
  mutable std::atomic<bool> waiting_ = false;
  mutable std::promise<void> reached_;
  std::promise<void> gate_;
  std::shared_future<void> opened_ = gate_.get_future();
};

std::string only_job(const Session& session) {
  const auto& jobs = session.state().jobs;
  return jobs.size() == 1 ? jobs[0]->status().what : std::string();
}

// One head whose keys cannot be read.
class TornKeys final : public SyntheticRecording {
 public:
  using SyntheticRecording::SyntheticRecording;

  RowMatrixF keys(int run, int layer, int kv_head, std::int64_t first, std::int64_t count) const override {
    if (layer == 1 && kv_head == 1) throw FileError("torn.h5: keys are cut short");
    return SyntheticRecording::keys(run, layer, kv_head, first, count);
  }
};

TEST(SessionJobs, AnExportSaysHowManyHeadsItReadAndIsForgottenAfter) {
  const test::ScratchFolder folder;
  const auto recording = std::make_shared<GatedRecording>(kSmall);
  Session session({});
  session.show(recording);
  session.choose_view("rank-correlation");
  ASSERT_TRUE(settle(session));
  recording->shut();
  session.export_view(folder.file("a.svg"));
  recording->wait_for_reader();
  EXPECT_THAT(only_job(session), HasSubstr("exporting rank-correlation to"));
  const JobStatus status = session.state().jobs[0]->status();
  EXPECT_GE(status.done, 1);
  EXPECT_EQ(status.total, 16);
  recording->open();
  ASSERT_TRUE(settle(session));
  EXPECT_TRUE(session.state().jobs.empty());
  EXPECT_THAT(session.state().notice.text, HasSubstr("written"));
}

TEST(SessionJobs, AFigureSaysHowManyHeadsItReadAndIsForgottenAfter) {
  const auto recording = std::make_shared<GatedRecording>(kSmall);
  Session session({});
  session.show(recording);
  ASSERT_TRUE(settle(session));
  recording->shut();
  session.choose_view("redundancy");
  recording->wait_for_reader();
  EXPECT_EQ(only_job(session), "making redundancy");
  const JobStatus status = session.state().jobs[0]->status();
  EXPECT_GE(status.done, 1);
  EXPECT_EQ(status.total, 3 * 16) << "of three runs";
  recording->open();
  ASSERT_TRUE(settle(session));
  EXPECT_TRUE(session.state().jobs.empty());
  EXPECT_NE(shown_in(session).figure, nullptr);
}

TEST(SessionJobs, ACancelledFigureIsMadeOnceItsViewIsChosenAgain) {
  const auto recording = std::make_shared<GatedRecording>(kSmall);
  Session session({});
  session.show(recording);
  ASSERT_TRUE(settle(session));
  recording->shut();
  session.choose_view("redundancy");
  recording->wait_for_reader();
  session.cancel_jobs();
  recording->open();
  ASSERT_TRUE(settle(session));
  EXPECT_TRUE(session.state().jobs.empty());
  EXPECT_EQ(shown_in(session).figure, nullptr);
  EXPECT_THAT(shown_in(session).error, HasSubstr("Cancelled"));
  session.choose_view("cosine-matrix");
  session.show_views({"cosine-matrix"});
  ASSERT_TRUE(settle(session));
  session.choose_view("redundancy");
  ASSERT_TRUE(settle(session));
  EXPECT_NE(shown_in(session).figure, nullptr);
}

TEST(SessionJobs, AFigureOfAClosedRecordingIsNotWaitedFor) {
  const auto recording = std::make_shared<GatedRecording>(kSmall);
  Session session({});
  session.show(recording);
  ASSERT_TRUE(settle(session));
  recording->shut();
  session.choose_view("redundancy");
  recording->wait_for_reader();
  const auto job = session.state().jobs.at(0);
  session.show(std::make_shared<SyntheticRecording>(kSmall));
  EXPECT_TRUE(job->cancelled());
  recording->open();
  ASSERT_TRUE(settle(session));
  EXPECT_TRUE(session.state().jobs.empty());
  EXPECT_NE(shown_in(session).figure, nullptr) << "that of the other recording";
}

TEST(SessionJobs, ACancelledExportWritesNothing) {
  const test::ScratchFolder folder;
  const auto recording = std::make_shared<GatedRecording>(kSmall);
  Session session({});
  session.show(recording);
  ASSERT_TRUE(settle(session));
  session.choose_view("cosine-matrix");  // of one head: its keys are read at once, and nothing after
  ASSERT_TRUE(settle(session));
  recording->shut();
  session.export_view(folder.file("a.svg"));
  recording->wait_for_reader();
  session.cancel_jobs();
  EXPECT_TRUE(session.state().jobs[0]->status().cancelled) << "it is still at work, and says so";
  recording->open();
  ASSERT_TRUE(settle(session));
  EXPECT_TRUE(session.state().jobs.empty());
  EXPECT_THAT(session.state().notice.text, HasSubstr("was not written"));
  EXPECT_FALSE(session.state().notice.error) << "it was asked for";
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SessionJobs, ExportsThatWaitAreAllWritten) {
  const test::ScratchFolder folder;
  Session session({});
  session.show(small_recording());
  for (const char* name : {"a.svg", "b.svg", "c.svg"}) session.export_view(folder.file(name));
  EXPECT_EQ(session.state().jobs.size(), 3U);
  ASSERT_TRUE(settle(session));
  for (const char* name : {"a.svg", "b.svg", "c.svg"})
    EXPECT_TRUE(std::filesystem::exists(folder.file(name))) << name;
  EXPECT_TRUE(session.state().jobs.empty());
}

// The reader is held by an export, so that the opening behind it is called off before it begins.
TEST(SessionJobs, ACancelledOpeningLeavesWhatIsOpen) {
  const test::ScratchFolder folder;
  const auto recording = std::make_shared<GatedRecording>(kSmall);
  Session session({});
  session.show(recording);
  ASSERT_TRUE(settle(session));
  recording->shut();
  session.export_view(folder.file("a.svg"));
  recording->wait_for_reader();
  session.open(folder.file("other.h5"));
  EXPECT_EQ(session.state().jobs.size(), 2U);
  session.cancel_jobs();
  EXPECT_TRUE(session.state().opening.empty());
  EXPECT_THAT(session.state().notice.text, HasSubstr("was not opened"));
  recording->open();
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().recording, recording);
  EXPECT_TRUE(session.state().open_error.empty()) << "nobody looked whether the file is there";
  EXPECT_TRUE(session.state().jobs.empty());
}

TEST(SessionJobs, OpeningAnotherFileCallsOffTheFirst) {
  const auto recording = small_recording();
  Session session({});
  session.open("/nowhere/first.h5");
  session.open("/nowhere/second.h5");
  EXPECT_EQ(only_job(session), "opening /nowhere/second.h5");
  ASSERT_TRUE(settle(session));
  EXPECT_THAT(session.state().open_error, HasSubstr("second.h5"));
  EXPECT_TRUE(session.state().jobs.empty());
}

TEST(SessionJobs, TokensOfTheHeadBeforeAreNotExportedForOneThatCannotBeRead) {
  const test::ScratchFolder folder;
  Session session({});
  session.show(std::make_shared<TornKeys>(kSmall));
  ASSERT_TRUE(settle(session));
  session.select_head(1, 1);
  ASSERT_TRUE(settle(session));
  session.export_view(folder.file("tokens.csv"));
  ASSERT_TRUE(settle(session));
  EXPECT_TRUE(session.state().notice.error);
  EXPECT_THAT(session.state().notice.text, HasSubstr("the head was not read"));
  EXPECT_FALSE(std::filesystem::exists(folder.file("tokens.csv")));
}

}  // namespace
}  // namespace keyscope::session
