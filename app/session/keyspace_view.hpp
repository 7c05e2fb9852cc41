#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "app/figures/figure.hpp"
#include "app/figures/keyspace.hpp"
#include "app/figures/keyspace_data.hpp"
#include "app/figures/scales.hpp"
#include "app/session/head_points.hpp"
#include "app/session/selection.hpp"
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

// A look without what the recording does not hold for a run, and what that is; nothing: it holds all.
struct PossibleLook {
  figures::KeyspaceLook look;
  std::string refusal;
};
PossibleLook possible_look(const recording::RecordingInfo& info, int run, figures::KeyspaceLook look);

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
                                                    const RecordingInfoPtr& info,
                                                    std::shared_ptr<const HeadPoints> points,
                                                    const PictureKey& key, QueryCache& queries);

// The same where reading may fail: the keys themselves, which were read before, with why there is no more.
std::shared_ptr<const KeyspacePicture> make_picture_anyway(const recording::Recording& recording,
                                                           const RecordingInfoPtr& info,
                                                           std::shared_ptr<const HeadPoints> points,
                                                           const PictureKey& key, QueryCache& queries);

// The rectangle that the points of a panel lie in.
figures::Extent points_extent(const figures::Panel& panel);

// ` --projection anchor --colour score --queries`: the options that ask for a look; empty for the usual one.
std::string look_options(const figures::KeyspaceLook& look);

}  // namespace keyscope::session
