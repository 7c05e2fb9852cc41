#include "app/window/frame_damage.hpp"

#include <algorithm>
#include <cstddef>

namespace keyscope::window {
namespace {

bool is_empty(const PixelRect& rect) { return rect.x_low >= rect.x_high || rect.y_low >= rect.y_high; }

PixelRect hull(const PixelRect& a, const PixelRect& b) {
  return {std::min(a.x_low, b.x_low), std::min(a.y_low, b.y_low), std::max(a.x_high, b.x_high),
          std::max(a.y_high, b.y_high)};
}

const ListMark* find(const std::vector<ListMark>& marks, const std::string& owner) {
  const auto found = std::ranges::find(marks, owner, &ListMark::owner);
  return found != marks.end() ? &*found : nullptr;
}

// The owners that are in both, in the order of `marks`.
std::vector<std::string> staying(const std::vector<ListMark>& marks, const std::vector<ListMark>& other) {
  std::vector<std::string> owners;
  for (const ListMark& mark : marks)
    if (find(other, mark.owner) != nullptr) owners.push_back(mark.owner);
  return owners;
}

// Parts that overlap are drawn together, so that nothing is blended twice.
void add_part(std::vector<PixelRect>& parts, PixelRect part) {
  if (is_empty(part)) return;
  for (std::size_t i = 0; i < parts.size();) {
    if (is_empty(common_part(parts[i], part))) {
      ++i;
      continue;
    }
    part = hull(part, parts[i]);
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
    i = 0;  // it has grown, and may reach those that were apart from it
  }
  parts.push_back(part);
}

}  // namespace

PixelRect common_part(const PixelRect& a, const PixelRect& b) {
  return {std::max(a.x_low, b.x_low), std::max(a.y_low, b.y_low), std::min(a.x_high, b.x_high),
          std::min(a.y_high, b.y_high)};
}

std::vector<PixelRect> changed_parts(const std::vector<ListMark>& before, const std::vector<ListMark>& now,
                                     const PixelRect& whole) {
  if (staying(before, now) != staying(now, before)) return {whole};
  std::vector<PixelRect> parts;
  for (const ListMark& mark : now) {
    const ListMark* earlier = find(before, mark.owner);
    if (earlier != nullptr && *earlier == mark) continue;
    add_part(parts, common_part(mark.bounds, whole));
    if (earlier != nullptr) add_part(parts, common_part(earlier->bounds, whole));
  }
  for (const ListMark& mark : before)
    if (find(now, mark.owner) == nullptr) add_part(parts, common_part(mark.bounds, whole));
  return parts;
}

}  // namespace keyscope::window
