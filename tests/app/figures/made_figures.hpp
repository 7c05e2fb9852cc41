#pragma once

#include <vector>

#include "app/figures/figure.hpp"
#include "capture/recording/recording_layout.hpp"
#include "tests/support/fake_recording.hpp"

namespace keyscope::figures {

// Two layers of two query heads on one KV head, three runs of 90 tokens.
FakeRecording make_recording();

// Where it comes from, as figure files carry it.
recording::Origin origin_of(const FakeRecording& recording);

// Figures of every kind of panel: matrices, also ordered and of retained keys, points in two and three
// dimensions and in all kinds of colours, lines, bars, small multiples.
std::vector<Figure> make_figures(const FakeRecording& recording);

// The points of a panel that go by a name.
//   throws InvalidInput where there are none
const PointSeries& series(const Panel& panel, const std::string& id);

}  // namespace keyscope::figures
