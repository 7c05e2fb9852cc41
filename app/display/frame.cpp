#include "app/window/kept_frame.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
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
  hash.add(list.VtxBuffer.Data, static_cast<std::size_t>(list.VtxBuffer.size_in_bytes()));
  hash.add(list.IdxBuffer.Data, static_cast<std::size_t>(list.IdxBuffer.size_in_bytes()));
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

// Clears the part to the ground and draws the lists that reach into it, with every command's clip narrowed.
void KeptFrame::draw_part(const ImDrawData& data, const PixelRect& part, ImU32 ground) {
  glEnable(GL_SCISSOR_TEST);
  glScissor(part.x_low, picture_.height() - part.y_high, part.x_high - part.x_low, part.y_high - part.y_low);
  const ImVec4 colour = ImGui::ColorConvertU32ToFloat4(ground);
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

void KeptFrame::draw(ImDrawData& data, ImU32 ground, int width, int height) {
  GLint target = 0;
  glGetIntegerv(GL_DRAW_FRAMEBUFFER_BINDING, &target);
  const bool anew = width != picture_.width() || height != picture_.height() || ground != ground_;
  picture_.resize(width, height);
  ground_ = ground;
  std::vector<ListMark> marks = marks_of(data);
  const PixelRect whole{0, 0, width, height};
  const auto parts = anew ? std::vector<PixelRect>{whole} : changed_parts(marks_, marks, whole);
  marks_ = std::move(marks);
  glBindFramebuffer(GL_FRAMEBUFFER, picture_.framebuffer());
  glViewport(0, 0, width, height);
  double drawn = 0;
  for (const PixelRect& part : parts) {
    draw_part(data, part, ground);
    drawn += static_cast<double>(part.x_high - part.x_low) * (part.y_high - part.y_low);
  }
  share_drawn_ = drawn / (static_cast<double>(width) * height);
  glBindFramebuffer(GL_READ_FRAMEBUFFER, picture_.framebuffer());
  glBindFramebuffer(GL_DRAW_FRAMEBUFFER, static_cast<GLuint>(target));
  glBlitFramebuffer(0, 0, width, height, 0, 0, width, height, GL_COLOR_BUFFER_BIT, GL_NEAREST);
  glBindFramebuffer(GL_FRAMEBUFFER, static_cast<GLuint>(target));
}

}  // namespace keyscope::window
