// A budget that is asked, in the session.

#include "app/measures/what_if.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/session/export_view.hpp"
#include "tests/app/session/settled_session.hpp"

namespace keyscope::session {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Every view is of the budget that was asked last.
TEST(SessionWhatIf, IsFollowedByFiguresAndTheDifference) {
  Session session({});
  session.show(std::make_shared<SyntheticRecording>(kFiveBlocks));
  session.choose_view("lifespans");
  session.show_views({"lifespans", std::string(kDifferenceView)});
  session.ask_what_if({"keydiff", 0.2});
  ASSERT_TRUE(settle(session));
  const auto figure = shown_in(session).figure;
  ASSERT_TRUE(figure) << shown_in(session).error;
  ASSERT_TRUE(session.state().difference.difference);
  const std::int64_t alone = session.state().difference.difference->n_only_a;
  const std::int64_t kept = session.state().difference.difference->n_both + alone;
  EXPECT_EQ(kept, 60);
  session.ask_what_if({"keydiff", 0.8});
  ASSERT_TRUE(settle(session));
  EXPECT_NE(shown_in(session).figure, figure);
  const auto& difference = *session.state().difference.difference;
  EXPECT_EQ(difference.n_both + difference.n_only_a, 240);
}

TEST(SessionWhatIf, IsARunThatIsSelectedAndFollowsTheBudget) {
  Session session({});
  const auto recording = std::make_shared<SyntheticRecording>(kFiveBlocks);
  session.show(recording);
  ASSERT_TRUE(settle(session));
  const auto n_runs = recording->info()->runs.size();
  for (const double share : {0.2, 0.5, 0.8}) {
    session.ask_what_if({"keydiff", share});
    ASSERT_TRUE(settle(session));
    const auto& state = session.state();
    ASSERT_EQ(state.info->runs.size(), n_runs + 1) << "one, not one for each time it is asked";
    EXPECT_EQ(state.run().plan.name, measures::kWhatIfName);
    ASSERT_TRUE(state.selected().points);
    std::int64_t kept = 0;
    for (const auto evicted : state.selected().points->trace.evicted_at) kept += evicted < 0;
    EXPECT_EQ(kept, std::llround(share * 300));
  }
  EXPECT_THAT(std::string(view_command_refusal(session.state())), HasSubstr("in no file"));
  session.select_run(0);
  session.toggle_beside({0, static_cast<int>(n_runs)});
  EXPECT_THAT(std::string(view_command_refusal(session.state())), HasSubstr("in no file")) << "nor beside";
  session.toggle_beside({0, static_cast<int>(n_runs)});
  EXPECT_EQ(view_command_refusal(session.state()), "");
  session.want_budget_curve("keydiff");
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().budget_curve.policy, "keydiff");
  EXPECT_FALSE(session.state().budget_curve.points.empty()) << session.state().budget_curve.error;
  session.ask_what_if({"nothing of the kind", 0.5});
  EXPECT_TRUE(session.state().notice.error || !session.state().notice.text.empty());
  session.show(recording);
  ASSERT_TRUE(settle(session));
  EXPECT_FALSE(session.state().what_if) << "another recording, even the same, begins anew";
}

}  // namespace
}  // namespace keyscope::session
