#include "app/display/widgets.hpp"

#include <algorithm>

#include <imgui.h>

#include "app/display/draw_context.hpp"

namespace keyscope::window {

namespace {

// While it lives, what is ticked or typed into is outlined, so that it stands out from the panel where it is
// empty.
class OutlinedFrame {
 public:
  explicit OutlinedFrame(const DrawContext& context);
  ~OutlinedFrame();
  OutlinedFrame(const OutlinedFrame&) = delete;
  OutlinedFrame& operator=(const OutlinedFrame&) = delete;
};

OutlinedFrame::OutlinedFrame(const DrawContext& context) {
  ImGui::PushStyleVar(ImGuiStyleVar_FrameBorderSize, 1);
  ImGui::PushStyleColor(ImGuiCol_Border, context.theme.outline);
}

// Lets a text grow while it is typed.
int resize_text(ImGuiInputTextCallbackData* data) {
  if (data->EventFlag != ImGuiInputTextFlags_CallbackResize) return 0;
  auto& text = *static_cast<std::string*>(data->UserData);
  text.resize(static_cast<std::size_t>(data->BufTextLen));
  data->Buf = text.data();
  return 0;
}

OutlinedFrame::~OutlinedFrame() {
  ImGui::PopStyleColor();
  ImGui::PopStyleVar();
}

}  // namespace

void note_widget(DrawContext& context, const std::string& name) {
  const ImVec2 low = ImGui::GetItemRectMin(), size = ImGui::GetItemRectSize();
  context.widgets[name] = {low.x, low.y, size.x, size.y};
}

bool tick_box(const DrawContext& context, const char* label, bool* value) {
  const OutlinedFrame outlined(context);
  return ImGui::Checkbox(label, value);
}

bool radio_button(const DrawContext& context, const std::string& label, int* value, int own) {
  const OutlinedFrame outlined(context);
  return ImGui::RadioButton(label.c_str(), value, own);
}

bool text_field(const DrawContext& context, const char* id, const char* hint, std::string* value,
                ImGuiInputTextFlags flags) {
  const OutlinedFrame outlined(context);
  return ImGui::InputTextWithHint(id, hint, value->data(), value->capacity() + 1,
                                  flags | ImGuiInputTextFlags_CallbackResize, resize_text, value);
}

bool text_area(const DrawContext& context, const char* id, std::string* value, ImVec2 size) {
  const OutlinedFrame outlined(context);
  return ImGui::InputTextMultiline(id, value->data(), value->capacity() + 1, size,
                                   ImGuiInputTextFlags_CallbackResize, resize_text, value);
}

bool number_field(const DrawContext& context, const char* id, int* value) {
  const OutlinedFrame outlined(context);
  return ImGui::InputInt(id, value, 0, 0);
}

void draw_progress_bar(const DrawContext& context, ImVec2 at, ImVec2 size, double share) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float rounding = 0.5F * size.y;
  list.AddRectFilled(at, {at.x + size.x, at.y + size.y}, context.theme.missing, rounding);
  const float done = size.x * static_cast<float>(share);
  if (done > 1) list.AddRectFilled(at, {at.x + done, at.y + size.y}, context.theme.accent, rounding);
}

namespace {

// One side of it: where it begins for a mouse at `at` in [low, high].
float towards_middle(float at, float size, float low, float high, float gap) {
  return at > 0.5F * (low + high) ? at - gap - size : at + gap;
}

float inside(float begin, float size, float low, float high) {
  return size <= high - low ? std::clamp(begin, low, high - size) : begin;
}

}  // namespace

Pixel place_tooltip(Pixel mouse, Pixel size, const Rect& plot, float gap) {
  const Pixel wanted{towards_middle(mouse.x, size.x, plot.x, plot.right(), gap),
                     towards_middle(mouse.y, size.y, plot.y, plot.bottom(), gap)};
  const Pixel moved{inside(wanted.x, size.x, plot.x, plot.right()),
                    inside(wanted.y, size.y, plot.y, plot.bottom())};
  const bool covers =
      mouse.x >= moved.x && mouse.x < moved.x + size.x && mouse.y >= moved.y && mouse.y < moved.y + size.y;
  if (!covers) return moved;
  return {moved.x, wanted.y};  // above or below: columns beside the plot are what must stay in sight
}

}  // namespace keyscope::window
