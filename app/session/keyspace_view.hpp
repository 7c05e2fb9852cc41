#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/figures/figure.hpp"
#include "app/figures/keyspace.hpp"
#include "app/figures/keyspace_data.hpp"
#include "app/figures/scales.hpp"
#include "app/session/head_points.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::session {

// Everything that a picture of the key space depends on in one recording.
struct PictureKey {
  HeadKey head;
  std::int64_t n_tokens = 0;  // of the run when its head was read
  std::int64_t block = -1;
  figures::KeyspaceLook look;
  bool operator==(const PictureKey&) const = default;
};

// The key space as it is shown, made once and never changed after.
struct KeyspacePicture {
  PictureKey key;
  std::shared_ptr<const HeadPoints> points;
  figures::Panel panel;
  std::string refusal;  // why something of the look is not shown; empty: all of it is
};

// The key space after a block, from what was read before: the panel that `figure keyspace` writes, without
// circles about top keys, which take longer than a frame to find.
//   block: -1: empty
//   content: what a look asks for beyond what was read of a head: queries and colours; or nothing
figures::Panel keyspace_panel(const HeadPoints& points, std::int64_t block,
                              const figures::KeyspaceLook& look = {}, figures::KeyspaceContent content = {});

// Whether a look takes longer than a frame: it reads, or computes on all keys.
bool asks_for_work(const figures::KeyspaceLook& look);

// Makes the picture. What the recording does not hold is left out, and `refusal` says so.
//   block: of `points`; queries: of this recording, on the same thread
//   throws FileError as the recording does
std::shared_ptr<const KeyspacePicture> make_picture(const recording::Recording& recording,
                                                    const recording::RecordingInfo& info,
                                                    std::shared_ptr<const HeadPoints> points,
                                                    const PictureKey& key, QueryCache& queries);

// The same where reading may fail: the keys themselves, which were read before, with why there is no more.
std::shared_ptr<const KeyspacePicture> make_picture_anyway(const recording::Recording& recording,
                                                           const recording::RecordingInfo& info,
                                                           std::shared_ptr<const HeadPoints> points,
                                                           const PictureKey& key, QueryCache& queries);

// The rectangle that the points of a panel lie in.
figures::Extent points_extent(const figures::Panel& panel);

// ` --projection anchor --colour score --queries`: the options that ask for a look; empty for the usual one.
std::string look_options(const figures::KeyspaceLook& look);

// A colour scale, and what its numbers mean: equal words mean that they can be read on one scale.
struct MeantScale {
  figures::ColourScale scale;
  std::string meaning;
};

// What the colours of a run's keys mean beside those of another run: scores and margins of two policies are
// numbers of two kinds; without a policy, scores are KeyDiff's.
std::string meaning_of(const recording::RunPlan& plan, figures::KeyColour colour);

// One scale for all, from the least low end to the greatest high end, so that equal colours are equal
// numbers; nullopt where they do not mean the same, or there is none.
std::optional<figures::ColourScale> shared_scale(const std::vector<MeantScale>& scales);

// The box that points of space lie in, and the ball about its middle that holds them whichever way they are
// turned.
struct SpaceBox {
  std::array<double, 3> low{}, high{};
  double radius = 0;
  bool operator==(const SpaceBox&) const = default;

  std::array<double, 3> middle() const {
    return {(low[0] + high[0]) / 2, (low[1] + high[1]) / 2, (low[2] + high[2]) / 2};
  }
  figures::Turned turned(const figures::Orbit& orbit, double x, double y, double z) const {
    const auto centre = middle();
    return orbit.turn(x - centre[0], y - centre[1], z - centre[2]);
  }
};

// Of the keys, in the three coordinates of all blocks, so that it stands still; a box of no width without any
// that are finite.
SpaceBox space_box(const HeadPoints& points);

// The least box that holds both, with a ball that holds both of theirs: so that points of several runs are
// turned about one middle.
SpaceBox both_boxes(const SpaceBox& a, const SpaceBox& b);

// Puts points where they are seen: x to the right, y upwards, about the middle of the box, and z their depth.
//   space: a panel of three dimensions; seen: a copy of it, that was turned before or not
void turn_points(const figures::Panel& space, const SpaceBox& box, const figures::Orbit& orbit,
                 figures::Panel& seen);

}  // namespace keyscope::session
