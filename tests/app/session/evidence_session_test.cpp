// A recording that says what its answer stands on opens where that went.

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/figures/nexus.hpp"
#include "app/measures/evidence_loss.hpp"
#include "app/session/session.hpp"
#include "tests/app/session/settled_session.hpp"
#include "tests/support/captured.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::session {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EvidenceSession : public ::testing::Test {
 protected:
  std::string capture(const std::string& name, bool with_evidence = true) const {
    capture::CaptureOptions options = test::full_cache_options();
    options.policies = test::policies({"none", "keydiff", "sink"});
    options.budget = 12;
    if (with_evidence) options.evidence = {{20, 22}};
    const auto path = folder_.file(name);
    std::filesystem::create_directories(path.parent_path());
    return test::capture_to(path, options);
  }
  bool open(const std::string& path, const SelectionRequest& request = {}) {
    session_.open(path, request);
    return settle(session_);
  }
  const SessionState& state() const { return session_.state(); }

  test::ScratchFolder folder_;
  Session session_{{}};
};

TEST_F(EvidenceSession, OpensAtTheBlockWhereItWent) {
  ASSERT_TRUE(open(capture("told.h5")));
  ASSERT_TRUE(state().loaded()) << state().open_error;
  const auto losses = measures::first_evidence_losses(*state().recording);
  ASSERT_TRUE(losses[1]);
  EXPECT_EQ(state().selection, (Selection{1, losses[1]->layer, losses[1]->kv_head, losses[1]->block}));
  EXPECT_EQ(state().locked, losses[1]->position);
  ASSERT_TRUE(state().tokens);
  EXPECT_THAT(*state().tokens, ElementsAre(20, 21));
}

TEST_F(EvidenceSession, GoesBackThereUnderTheSelectedPolicy) {
  ASSERT_TRUE(open(capture("told.h5")));
  session_.select_run(2);
  session_.show_first_block();
  session_.release();
  session_.show_evidence_loss();
  ASSERT_TRUE(settle(session_));
  const auto losses = measures::first_evidence_losses(*state().recording);
  ASSERT_TRUE(losses[2]);
  EXPECT_EQ(state().selection, (Selection{2, losses[2]->layer, losses[2]->kv_head, losses[2]->block}));
  session_.select_run(0);  // which evicts nothing: the first that does
  session_.show_evidence_loss();
  EXPECT_EQ(state().selection.run, 1);
}

TEST_F(EvidenceSession, WhatIsAskedForComesFirst) {
  ASSERT_TRUE(open(capture("told.h5"), {.run = "sink", .layer = 1, .block = 0}));
  EXPECT_EQ(state().selection, (Selection{2, 1, 0, 0}));
  EXPECT_FALSE(state().tokens);
}

TEST_F(EvidenceSession, WithoutEvidenceNothingChanges) {
  ASSERT_TRUE(open(capture("untold.h5", false)));
  EXPECT_FALSE(state().tokens);
  EXPECT_EQ(state().locked, std::nullopt);
  session_.show_evidence_loss();
  EXPECT_THAT(state().notice.text, HasSubstr("No policy evicted"));
}

TEST_F(EvidenceSession, AFolderOfResultsOpensItsRecordings) {
  const std::string folder = std::string("results/") + figures::kRecordingsFolder;
  const std::string first = capture(folder + "/a.h5"), second = capture(folder + "/b.h5");
  ASSERT_TRUE(open(folder_.file("results").string()));
  EXPECT_THAT(state().documents, ElementsAre(first, second));
  EXPECT_EQ(state().path, first);
  session_.open_document(1);
  ASSERT_TRUE(settle(session_));
  EXPECT_EQ(state().path, second);
  EXPECT_THAT(state().documents, ElementsAre(first, second));
  session_.open_document(1);
  ASSERT_TRUE(settle(session_));
  EXPECT_EQ(state().path, first);
}

TEST_F(EvidenceSession, AFolderWithoutRecordingsIsRefused) {
  session_.open(folder_.path());
  ASSERT_TRUE(settle(session_));
  EXPECT_THAT(state().open_error, HasSubstr("there is no recording in this folder"));
}

}  // namespace
}  // namespace keyscope::session
