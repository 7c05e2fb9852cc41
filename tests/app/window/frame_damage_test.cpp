#include "app/window/frame_damage.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace keyscope::window {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr PixelRect kWhole{0, 0, 100, 80};
const ListMark kLeft{"left", 1, {0, 0, 30, 80}}, kMiddle{"middle", 2, {30, 0, 70, 80}},
    kRight{"right", 3, {70, 0, 120, 80}}, kPopup{"popup", 4, {20, 10, 60, 40}};

ListMark changed(ListMark mark) {
  mark.hash += 100;
  return mark;
}

std::vector<PixelRect> parts(const std::vector<ListMark>& before, const std::vector<ListMark>& now) {
  return changed_parts(before, now, kWhole);
}

TEST(FrameDamage, NothingIsDrawnWhereNothingChanged) {
  EXPECT_THAT(parts({kLeft, kMiddle}, {kLeft, kMiddle}), IsEmpty());
}

TEST(FrameDamage, AListThatChangedIsDrawnAndNoOther) {
  EXPECT_THAT(parts({kLeft, kMiddle, kRight}, {kLeft, changed(kMiddle), kRight}),
              ElementsAre(kMiddle.bounds));
  EXPECT_THAT(parts({kLeft, kMiddle, kRight}, {changed(kLeft), kMiddle, changed(kRight)}),
              ElementsAre(kLeft.bounds, PixelRect{70, 0, 100, 80}))
      << "and nothing beyond the window";
}

TEST(FrameDamage, WhatCameOrWentIsDrawnWithWhatLiesUnderIt) {
  EXPECT_THAT(parts({kLeft, kMiddle}, {kLeft, kMiddle, kPopup}), ElementsAre(kPopup.bounds));
  EXPECT_THAT(parts({kLeft, kMiddle, kPopup}, {kLeft, kMiddle}), ElementsAre(kPopup.bounds));
}

TEST(FrameDamage, WhatMovedIsDrawnWhereItWasAsWell) {
  ListMark moved = changed(kPopup);
  moved.bounds = {62, 50, 68, 60};
  EXPECT_THAT(parts({kLeft, kMiddle, kPopup}, {kLeft, kMiddle, moved}),
              ElementsAre(moved.bounds, kPopup.bounds));
}

TEST(FrameDamage, PartsThatOverlapAreDrawnTogether) {
  EXPECT_THAT(parts({kLeft, kMiddle, kPopup}, {changed(kLeft), kMiddle, changed(kPopup)}),
              ElementsAre(PixelRect{0, 0, 60, 80}));
  EXPECT_THAT(parts({kLeft, kMiddle, kPopup}, {changed(kLeft), changed(kMiddle), changed(kPopup)}),
              ElementsAre(PixelRect{0, 0, 70, 80}))
      << "what lay apart is joined by what lies between";
}

TEST(FrameDamage, AnotherOrderIsDrawnWhole) {
  EXPECT_THAT(parts({kMiddle, kPopup}, {kPopup, kMiddle}), ElementsAre(kWhole));
}

}  // namespace
}  // namespace keyscope::window
