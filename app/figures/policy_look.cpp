#include "app/figures/policy_look.hpp"

#include <array>

namespace keyscope::figures {

PolicyLooks::Look PolicyLooks::next(std::string_view policy) {
  if (policy == "none") return {kBlack, Marker::kSquare};
  static constexpr std::array kColours{kBlue, kOrange, kGreen, kVermillion, kPurple, kSkyBlue, kGrey};
  static constexpr std::array kMarkers{Marker::kDisc,         Marker::kRing,       Marker::kTriangle,
                                       Marker::kDownTriangle, Marker::kOpenSquare, Marker::kStar,
                                       Marker::kDiamond};
  static_assert(kColours.size() == kMarkers.size());
  // A second round has the same colours with other markers: no two are alike before the 49th.
  constexpr std::size_t kShift = 3;
  const std::size_t round = turn_ / kColours.size(), turn = turn_++ % kColours.size();
  return {kColours.at(turn), kMarkers.at((turn + kShift * round) % kMarkers.size())};
}

}  // namespace keyscope::figures
