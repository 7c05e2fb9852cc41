#include "app/display/frame.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include <backends/imgui_impl_opengl3.h>

namespace keyscope::window {

namespace {

// FNV-1a over words of 64 bits, and the bytes that remain: what two lists have in common is no accident.
class Hash {
 public:
  void add(const void* data, std::size_t n_bytes) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    std::size_t i = 0;
    for (; i + sizeof(std::uint64_t) <= n_bytes; i += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::copy_n(bytes + i, sizeof(word), reinterpret_cast<unsigned char*>(&word));
      mix(word);
    }
    for (; i < n_bytes; ++i) mix(bytes[i]);
  }
  void mix(std::uint64_t word) { value_ = std::rotl((value_ ^ word) * 1099511628211U, 29); }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 14695981039346656037U;
};

std::uint64_t hash_of(const ImDrawList& list, const std::vector<GLuint>& drawn_anew, std::uint64_t frame) {
  Hash hash;
  hash.add(list.VtxBuffer.Data, list.VtxBuffer.size_in_bytes());
  hash.add(list.IdxBuffer.Data, list.IdxBuffer.size_in_bytes());
  for (const ImDrawCmd& command : list.CmdBuffer) {
    hash.add(&command.ClipRect, sizeof(command.ClipRect));
    hash.mix(reinterpret_cast<std::uintptr_t>(command.TextureId));
    hash.mix(command.ElemCount);
    hash.mix(command.IdxOffset);
    hash.mix(command.VtxOffset);
    const auto texture = static_cast<GLuint>(reinterpret_cast<std::uintptr_t>(command.TextureId));
    if (std::ranges::find(drawn_anew, texture) != drawn_anew.end()) hash.mix(frame);
  }
  return hash.value();
}

// Of its vertices, as far as its commands let them be seen; with the pixel that edges fade over.
PixelRect bounds_of(const ImDrawList& list) {
  constexpr float kFar = std::numeric_limits<float>::max();
  ImVec2 low(kFar, kFar), high(-kFar, -kFar);
  for (const ImDrawVert& vertex : list.VtxBuffer) {
    low = {std::min(low.x, vertex.pos.x), std::min(low.y, vertex.pos.y)};
    high = {std::max(high.x, vertex.pos.x), std::max(high.y, vertex.pos.y)};
  }
  ImVec2 clip_low(kFar, kFar), clip_high(-kFar, -kFar);
  for (const ImDrawCmd& command : list.CmdBuffer) {
    clip_low = {std::min(clip_low.x, command.ClipRect.x), std::min(clip_low.y, command.ClipRect.y)};
    clip_high = {std::max(clip_high.x, command.ClipRect.z), std::max(clip_high.y, command.ClipRect.w)};
  }
  low = {std::max(low.x, clip_low.x), std::max(low.y, clip_low.y)};
  high = {std::min(high.x, clip_high.x), std::min(high.y, clip_high.y)};
  if (!(low.x < high.x) || !(low.y < high.y)) return {};
  return {static_cast<int>(std::floor(low.x)) - 1, static_cast<int>(std::floor(low.y)) - 1,
          static_cast<int>(std::ceil(high.x)) + 1, static_cast<int>(std::ceil(high.y)) + 1};
}

std::vector<ListMark> marks_of(const ImDrawData& data) {
  static std::uint64_t frame = 0;
  ++frame;
  const std::vector<GLuint> drawn_anew = take_changed_textures();
  std::vector<ListMark> marks;
  for (int i = 0; i < data.CmdListsCount; ++i) {
    const ImDrawList& list = *data.CmdLists[i];
    if (list.IdxBuffer.empty()) continue;
    marks.push_back({list._OwnerName != nullptr ? list._OwnerName : "", hash_of(list, drawn_anew, frame),
                     bounds_of(list)});
  }
  return marks;
}

}  // namespace

// Clears the part to the background and draws the lists that reach into it, with every command's clip
// narrowed.
void KeptFrame::draw_part(const ImDrawData& data, const PixelRect& part, ImU32 background) {
  glEnable(GL_SCISSOR_TEST);
  glScissor(part.x_low, picture_.height() - part.y_high, part.x_high - part.x_low, part.y_high - part.y_low);
  const ImVec4 colour = ImGui::ColorConvertU32ToFloat4(background);
  glClearColor(colour.x, colour.y, colour.z, 1);
  glClear(GL_COLOR_BUFFER_BIT);
  glDisable(GL_SCISSOR_TEST);

  const ImVec4 room(static_cast<float>(part.x_low), static_cast<float>(part.y_low),
                    static_cast<float>(part.x_high), static_cast<float>(part.y_high));
  std::vector<ImDrawList*> lists;
  std::vector<ImVec4> clips;  // as they were
  for (int i = 0; i < data.CmdListsCount; ++i) {
    ImDrawList& list = *data.CmdLists[i];
    const PixelRect shared = common_part(bounds_of(list), part);
    if (shared.x_low >= shared.x_high || shared.y_low >= shared.y_high) continue;
    lists.push_back(&list);
    for (ImDrawCmd& command : list.CmdBuffer) {
      ImVec4& clip = command.ClipRect;
      clips.push_back(clip);
      clip = {std::max(clip.x, room.x), std::max(clip.y, room.y), std::min(clip.z, room.z),
              std::min(clip.w, room.w)};
    }
  }
  ImDrawData some = data;
  some.CmdLists = lists.data();
  some.CmdListsCount = static_cast<int>(lists.size());
  ImGui_ImplOpenGL3_RenderDrawData(&some);
  auto before = clips.begin();
  for (ImDrawList* list : lists)
    for (ImDrawCmd& command : list->CmdBuffer) command.ClipRect = *before++;
}

void KeptFrame::draw(ImDrawData& data, ImU32 background, int width, int height) {
  GLint target = 0;
  glGetIntegerv(GL_DRAW_FRAMEBUFFER_BINDING, &target);
  const bool anew = width != picture_.width() || height != picture_.height() || background != background_;
  picture_.resize(width, height);
  background_ = background;
  std::vector<ListMark> marks = marks_of(data);
  const PixelRect whole{0, 0, width, height};
  const auto parts = anew ? std::vector<PixelRect>{whole} : changed_parts(marks_, marks, whole);
  marks_ = std::move(marks);
  glBindFramebuffer(GL_FRAMEBUFFER, picture_.framebuffer());
  glViewport(0, 0, width, height);
  double drawn = 0;
  for (const PixelRect& part : parts) {
    draw_part(data, part, background);
    drawn += static_cast<double>(part.x_high - part.x_low) * (part.y_high - part.y_low);
  }
  share_drawn_ = drawn / (static_cast<double>(width) * height);
  glBindFramebuffer(GL_READ_FRAMEBUFFER, picture_.framebuffer());
  glBindFramebuffer(GL_DRAW_FRAMEBUFFER, static_cast<GLuint>(target));
  glBlitFramebuffer(0, 0, width, height, 0, 0, width, height, GL_COLOR_BUFFER_BIT, GL_NEAREST);
  glBindFramebuffer(GL_FRAMEBUFFER, static_cast<GLuint>(target));
}

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

namespace {

double seconds(FrameRate::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

void FrameRate::note_frame(Clock::time_point began, Clock::time_point ended) {
  last_frame_ = ended;
  wait_after_frame_ = std::clamp(seconds(ended - began) / kMostShare, kLeastWaitSeconds, kMostWaitSeconds);
}

double FrameRate::wait(Clock::time_point now) const {
  if (seconds(now - last_input_) < kAttentionSeconds) return 0;
  return std::max(0.0, wait_after_frame_ - seconds(now - last_frame_));
}

namespace {

constexpr double kSamePixel = 0.01;  // further off, anti-aliased edges would begin to differ

// The lines of one axis that a shift keeps in sight, where they are afterwards.
std::vector<int> kept(const std::vector<int>& lines, int moved_by, int shift, int size) {
  const int low = std::max(0, shift);
  const int high = std::min(size, size + shift);
  std::vector<int> result;
  for (const int line : lines)
    if (line + moved_by >= low && line + moved_by < high) result.push_back(line + moved_by);
  return result;
}

}  // namespace

std::optional<PixelShift> whole_pixel_shift(const PlotView& from, const PlotView& to) {
  if (from.pixels_per_unit_x() != to.pixels_per_unit_x() ||
      from.pixels_per_unit_y() != to.pixels_per_unit_y() || from.width() != to.width() ||
      from.height() != to.height())
    return std::nullopt;
  const double x = (from.centre().x - to.centre().x) * to.pixels_per_unit_x();
  const double y = (to.centre().y - from.centre().y) * to.pixels_per_unit_y();
  constexpr double kFarthest = 0x1p30;  // pixels; an int holds them
  if (!(std::max(std::abs(x), std::abs(y)) < kFarthest)) return std::nullopt;
  const PixelShift shift{static_cast<int>(std::lround(x)), static_cast<int>(std::lround(y))};
  if (std::abs(x - shift.x) > kSamePixel || std::abs(y - shift.y) > kSamePixel) return std::nullopt;
  return shift;
}

std::vector<PixelRect> exposed_parts(int width, int height, PixelShift shift) {
  if (std::abs(shift.x) >= width || std::abs(shift.y) >= height) return {{0, 0, width, height}};
  std::vector<PixelRect> parts;
  int low = 0, high = width;  // the columns that are not exposed
  if (shift.x > 0) parts.push_back({0, 0, low = shift.x, height});
  if (shift.x < 0) parts.push_back({high = width + shift.x, 0, width, height});
  if (shift.y > 0) parts.push_back({low, 0, high, shift.y});
  if (shift.y < 0) parts.push_back({low, height + shift.y, high, height});
  return parts;
}

bool lines_follow(const PlotGrid& from, const PlotGrid& to, int width, int height, PixelShift shift) {
  return kept(from.x_px, shift.x, shift.x, width) == kept(to.x_px, 0, shift.x, width) &&
         kept(from.y_px, shift.y, shift.y, height) == kept(to.y_px, 0, shift.y, height);
}

}  // namespace keyscope::window
