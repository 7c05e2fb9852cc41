#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/app/session/settled_session.hpp"

namespace keyscope::session {
namespace {

// So many queries that heads are sketched first.
constexpr SyntheticSize kLong{.n_layers = 1,
                              .n_kv_heads = 2,
                              .head_dim = 64,
                              .n_tokens = 16384,
                              .block_size = 4096,
                              .budget = 1024,
                              .n_runs = 2};

// Whole queries cannot be read of it, stretches can.
class TornRecording : public SyntheticRecording {
 public:
  using SyntheticRecording::SyntheticRecording;

  RowMatrixF queries(int run, int layer, int query_head, std::int64_t first,
                     std::int64_t count) const override {
    if (count > 1000) throw FileError("torn.h5: queries are cut short");
    return SyntheticRecording::queries(run, layer, query_head, first, count);
  }
};

std::shared_ptr<const HeadPoints> read_at_once(const recording::Recording& recording, const HeadKey& head) {
  auto basis = std::make_shared<const figures::KeyspaceBasis>(
      figures::fit_keyspace_basis(recording, head.layer, head.kv_head));
  return read_head_points(recording, *recording.info(), head, std::move(basis), nullptr);
}

TEST(SessionPoints, LongHeadsAreSketchedAndThenSettled) {
  const auto recording = std::make_shared<SyntheticRecording>(kLong);
  ASSERT_TRUE(worth_sketching(*recording->info()));
  Session session(nullptr);
  session.show(recording);
  ASSERT_TRUE(drain_until(session, [&] { return session.state().points != nullptr; }));
  const auto sketch = session.state().points;
  EXPECT_TRUE(sketch->sketched);
  EXPECT_FALSE(session.state().reading);
  EXPECT_TRUE(session.state().settling);
  EXPECT_EQ(sketch->mean_query.rows(), 0);

  ASSERT_TRUE(settle(session));
  EXPECT_FALSE(session.state().settling);
  const auto expected = read_at_once(*recording, session.state().head());
  const auto& settled = *session.state().points;
  EXPECT_FALSE(settled.sketched);
  EXPECT_EQ(settled.keys, expected->keys);
  EXPECT_EQ(settled.coordinates, expected->coordinates);
  EXPECT_EQ(settled.mean_key, expected->mean_key);
  EXPECT_EQ(settled.mean_query, expected->mean_query);

  // Points hardly move from one to the other.
  const double width = expected->extent.x_high - expected->extent.x_low;
  EXPECT_LT((settled.coordinates - sketch->coordinates).leftCols(2).rowwise().norm().maxCoeff(), 0.1 * width);
}

TEST(SessionPoints, AHeadLeftWhileItSettlesIsSettledWhenItIsShownAgain) {
  const auto recording = std::make_shared<SyntheticRecording>(kLong);
  Session session(nullptr);
  session.show(recording);
  ASSERT_TRUE(drain_until(session, [&] { return session.state().settling; }));
  session.select_head(0, 1);
  ASSERT_TRUE(settle(session));
  EXPECT_EQ(session.state().points->coordinates,
            read_at_once(*recording, session.state().head())->coordinates);
  session.select_head(0, 0);
  ASSERT_TRUE(settle(session));
  EXPECT_FALSE(session.state().points->sketched);
  EXPECT_EQ(session.state().points->coordinates,
            read_at_once(*recording, session.state().head())->coordinates);
}

TEST(SessionPoints, TheSketchStaysWhereTheRestCannotBeRead) {
  Session session(nullptr);
  session.show(std::make_shared<TornRecording>(kLong));
  ASSERT_TRUE(drain_until(session, [&] { return session.state().points && !session.state().settling; }));
  EXPECT_GT(session.state().points->keys.rows(), 0);
  ASSERT_TRUE(drain_until(session, [&] { return session.state().notice.error; }));
  EXPECT_NE(session.state().notice.text.find("torn.h5"), std::string::npos);
}

}  // namespace
}  // namespace keyscope::session
