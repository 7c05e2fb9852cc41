#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/display/frame.hpp"

namespace keyscope::window {

// What is known of one of ImGui's draw lists, to tell whether it draws what it drew before.
struct ListMark {
  std::string owner;       // the window that it belongs to
  std::uint64_t hash = 0;  // of all that it draws
  PixelRect bounds;        // pixels outside of them it leaves alone
  bool operator==(const ListMark&) const = default;
};

// The parts of a picture that differ between two frames, apart from each other: where a list changed, came or
// went. All of the picture where lists that stay lie above each other in another order.
//   before, now: from the lowest list to the uppermost
std::vector<PixelRect> changed_parts(const std::vector<ListMark>& before, const std::vector<ListMark>& now,
                                     const PixelRect& whole);

// The part of two rectangles that both have; without width or height where there is none.
PixelRect common_part(const PixelRect& a, const PixelRect& b);

}  // namespace keyscope::window
