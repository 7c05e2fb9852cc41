#include "app/session/keyspace_view.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "app/figures/figure_builders.hpp"
#include "app/session/tokens.hpp"
#include "tests/app/session/settled_session.hpp"
#include "tests/support/synthetic_recording.hpp"

namespace keyscope::session {

namespace {

using figures::KeyColour;
using figures::KeyspaceLook;
using figures::Projection;

const figures::PointSeries* find(const figures::Panel& panel, const std::string& id) {
  const auto found = std::ranges::find(panel.points, id, &figures::PointSeries::id);
  return found == panel.points.end() ? nullptr : &*found;
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE((std::isnan(a[i]) && std::isnan(b[i])) || std::abs(a[i] - b[i]) <= 1e-5) << what << " " << i;
}

std::shared_ptr<const KeyspacePicture> picture_of(const SyntheticRecording& recording,
                                                  const std::shared_ptr<const HeadPoints>& points,
                                                  std::int64_t block, const KeyspaceLook& look,
                                                  QueryCache& queries) {
  return make_picture(recording, recording.info(), points, {points->head, points->n_tokens, block, look},
                      queries);
}

// The window and `figure keyspace` must show the same points at every moment of a run, whatever the look.
TEST(KeyspacePicture, EqualsTheFigureThatIsWrittenToFiles) {
  const SyntheticRecording recording(kFiveBlocks);
  const auto points = read_at_once(recording, {1, 1, 1});
  QueryCache queries;
  for (const KeyspaceLook look :
       {KeyspaceLook{}, KeyspaceLook{Projection::kPca3d, KeyColour::kPosition, true},
        KeyspaceLook{Projection::kAnchor, KeyColour::kScore, true},
        KeyspaceLook{Projection::kAnchor, KeyColour::kAttention, false},
        KeyspaceLook{Projection::kPca, KeyColour::kMargin, true},
        KeyspaceLook{Projection::kPca, KeyColour::kTokenClass, false}})
    for (std::int64_t block = 0; block < points->n_blocks(); ++block) {
      const auto picture = picture_of(recording, points, block, look, queries);
      EXPECT_EQ(picture->refusal, "");
      const figures::Panel& window = picture->panel;
      const figures::Panel file =
          figures::keyspace_figure(recording, {.runs = {recording.info()->runs[1].plan.name},
                                               .layer = 1,
                                               .kv_head = 1,
                                               .block = block,
                                               .projection = look.projection,
                                               .colour = look.colour,
                                               .queries = look.queries})
              .panels.at(0);
      EXPECT_EQ(window.x.label, file.x.label);
      EXPECT_EQ(window.note, file.note);
      EXPECT_EQ(window.is_3d(), file.is_3d());
      ASSERT_EQ(window.scale.has_value(), file.scale.has_value());
      if (window.scale) {
        EXPECT_EQ(window.scale->long_name, file.scale->long_name);
        EXPECT_FLOAT_EQ(window.scale->low, file.scale->low);
        EXPECT_FLOAT_EQ(window.scale->high, file.scale->high);
      }
      EXPECT_EQ(find(window, "queries") != nullptr, look.queries);
      for (const char* id : {"queries", "retained", "evicted", "anchor", "mean_query"}) {
        const auto *a = find(window, id), *b = find(file, id);
        ASSERT_EQ(a != nullptr, b != nullptr) << id;
        if (a == nullptr) continue;
        const std::string what = std::string(id) + " at block " + std::to_string(block);
        EXPECT_EQ(a->label, b->label);
        EXPECT_EQ(a->token, b->token) << what;
        expect_near(a->x, b->x, what);
        expect_near(a->y, b->y, what);
        expect_near(a->z, b->z, what);
        expect_near(a->value, b->value, what);
      }
    }
}

TEST(KeyspacePicture, RebuildsEveryMomentFromEvictedAt) {
  const SyntheticRecording recording(kFiveBlocks);
  const auto points = read_at_once(recording, {1, 0, 0});
  for (std::int64_t block = 0; block < points->n_blocks(); ++block) {
    const figures::Panel panel = keyspace_panel(*points, block);
    const auto retained = recording::retained_positions(points->trace.evicted_at, points->seen[block], block);
    EXPECT_EQ(find(panel, "retained")->token, retained);
    EXPECT_EQ(find(panel, "evicted")->token.size() + retained.size(),
              static_cast<std::size_t>(points->seen[block]));
  }
  const figures::Panel before = keyspace_panel(*points, -1);
  EXPECT_EQ(before.note, "no token was seen yet");
  for (const figures::PointSeries& series : before.points) EXPECT_TRUE(series.x.empty()) << series.id;
}

// What the token panel says of a token is what the anchor view shows: a score is a cosine turned round.
TEST(KeyspacePicture, AgainstTheAnchorAPointLiesWhereItsScoreSays) {
  const SyntheticRecording recording(kFiveBlocks);
  const auto points = read_at_once(recording, {1, 0, 1});
  const figures::Panel panel = keyspace_panel(*points, 2, {.projection = Projection::kAnchor});
  const figures::PointSeries& retained = *find(panel, "retained");
  for (std::size_t i = 0; i < retained.x.size(); i += 7)
    EXPECT_NEAR(*token_facts(*recording.info(), *points, 2, retained.token[i]).score, -retained.x[i], 1e-6);
}

TEST(KeyspacePicture, PointsStandStillInPcaAndMoveAgainstTheAnchor) {
  const SyntheticRecording recording(kFiveBlocks);
  const auto points = read_at_once(recording, {0, 0, 0});
  const auto first_of = [&](Projection projection, std::int64_t block) {
    return find(keyspace_panel(*points, block, {.projection = projection}), "retained")->x.front();
  };
  EXPECT_EQ(first_of(Projection::kPca, 0), first_of(Projection::kPca, 4));
  EXPECT_EQ(first_of(Projection::kPca3d, 0), first_of(Projection::kPca3d, 4));
  EXPECT_NE(first_of(Projection::kAnchor, 0), first_of(Projection::kAnchor, 4));
}

TEST(KeyspacePicture, KeysWithoutAPlaceAreCounted) {
  const SyntheticRecording recording(kFiveBlocks);
  HeadPoints points = *read_at_once(recording, {0, 0, 0});
  EXPECT_EQ(keyspace_panel(points, 4).note, "all 300 keys retained");
  points.coordinates(3, 1) = NAN;
  const figures::Panel panel = keyspace_panel(points, 4);
  EXPECT_EQ(panel.note, "all 300 keys retained; showing 299 of them, the others are not finite");
  EXPECT_EQ(find(panel, "retained")->x.size(), 299U);
}

TEST(KeyspacePicture, WhatIsNotRecordedIsLeftOutWithItsReason) {
  const SyntheticRecording recording(kFiveBlocks);
  const auto points = read_at_once(recording, {0, 0, 0});
  QueryCache queries;
  auto info = *recording.info();
  info.queries = false;
  const KeyspaceLook look{.colour = KeyColour::kMargin, .queries = true};
  const auto picture = make_picture(recording, std::make_shared<const recording::RecordingInfo>(info), points,
                                    {{0, 0, 0}, 300, 1, look}, queries);
  EXPECT_EQ(picture->refusal, "none evicts nothing, so there are no margins; queries were not recorded");
  EXPECT_EQ(find(picture->panel, "queries"), nullptr);
  EXPECT_FALSE(picture->panel.scale);
  EXPECT_EQ(picture->key.look, look) << "what was asked for";
}

TEST(KeyspacePicture, ALookIsAskedForByItsOptions) {
  EXPECT_EQ(look_options({}), "");
  EXPECT_EQ(look_options({Projection::kAnchor, KeyColour::kTokenClass, true}),
            " --projection anchor --colour class --queries");
}

}  // namespace

}  // namespace keyscope::session
