#include "app/panels/figure_panel.hpp"

#include <algorithm>
#include <cmath>
#include <exception>

#include <fmt/format.h>

#include "app/drawing/cairo_painter.hpp"

namespace keyscope::window {
namespace {

constexpr float kListWidth = 300;
constexpr double kDpi = 120;  // text of 7.5 points is as large as the window's own

}  // namespace

void FigurePanel::draw_list(PanelContext& context, const Rect& rect) const {
  begin_panel("figures", rect);
  const auto& state = context.state();
  heading(context, "Figures");
  dim_text(context, fit_text(context.fonts.small, state.figure_file->origin.model.name,
                             ImGui::GetContentRegionAvail().x));
  ImGui::BeginChild("list");
  for (std::size_t i = 0; i < state.figure_file->figures.size(); ++i) {
    const auto& figure = state.figure_file->figures[i];
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const ImVec2 size(ImGui::GetContentRegionAvail().x, context.px(44));
    ImGui::PushID(static_cast<int>(i));
    if (ImGui::InvisibleButton("figure", size)) context.session.select_figure(static_cast<std::int64_t>(i));
    ImGui::PopID();
    const bool selected = i == state.figure;
    ImDrawList& list = *ImGui::GetWindowDrawList();
    if (selected || ImGui::IsItemHovered())
      list.AddRectFilled(at, {at.x + size.x, at.y + size.y},
                         selected ? context.theme.selected : context.theme.hover, context.px(4));
    if (selected)
      list.AddRectFilled(at, {at.x + context.px(3), at.y + size.y}, context.theme.accent, context.px(2));
    if (selected && ImGui::IsWindowAppearing()) ImGui::SetScrollHereY();
    const float left = at.x + context.px(12);
    const float room = size.x - context.px(18);
    draw_text(list, context.fonts.regular, {left, at.y + context.px(5)}, context.theme.text,
              fit_text(context.fonts.regular, figure.title, room));
    draw_text(list, context.fonts.small, {left, at.y + context.px(24)}, context.theme.dim,
              fit_text(context.fonts.small, figure.name, room));
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", figure.title.c_str());
    context.widgets[fmt::format("figure_{}", i)] = {at.x, at.y, size.x, size.y};
  }
  ImGui::EndChild();
  end_panel();
}

void FigurePanel::make(const PanelContext& context, Made wanted) {
  if (wanted == made_) return;
  made_ = std::move(wanted);
  error_.clear();
  try {
    const auto image = figures::draw_to_image(made_.file->figures[made_.figure], made_.width, made_.height,
                                              kDpi * context.scale, !made_.light);
    note_texture_change(texture_.get());
    glBindTexture(GL_TEXTURE_2D, texture_.get());
    glTexImage2D(GL_TEXTURE_2D, 0, GL_RGB8, image.width, image.height, 0, GL_BGRA, GL_UNSIGNED_BYTE,
                 image.bgrx.data());
    glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
    glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
    width_ = image.width;
    height_ = image.height;
  } catch (const std::exception& error) {
    error_ = error.what();
  }
}

void FigurePanel::draw_picture(PanelContext& context, const Rect& rect) {
  begin_panel("figure", rect);
  const ImVec2 room = ImGui::GetContentRegionAvail();
  if (room.x < context.px(80) || room.y < context.px(80)) {
    end_panel();
    return;
  }
  make(context, {context.state().figure_file, context.state().figure, static_cast<int>(room.x),
                 static_cast<int>(room.y), context.theme.light});
  if (!error_.empty()) {
    ImGui::TextWrapped("%s", error_.c_str());
    end_panel();
    return;
  }
  ImGui::BeginChild("picture", room, false, ImGuiWindowFlags_HorizontalScrollbar);
  // In the middle, on whole pixels, so that text stays sharp.
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::SetCursorScreenPos(
      {std::round(at.x + std::max(0.0F, 0.5F * (room.x - static_cast<float>(width_)))),
       std::round(at.y + std::max(0.0F, 0.5F * (room.y - static_cast<float>(height_))))});
  ImGui::Image(texture_id(texture_.get()), {static_cast<float>(width_), static_cast<float>(height_)});
  ImGui::EndChild();
  end_panel();
}

void FigurePanel::draw(PanelContext& context, const Rect& rect) {
  const float gap = context.px(8);
  const bool several = context.state().figure_file->figures.size() > 1;
  const float list = several ? std::min(context.px(kListWidth), 0.35F * rect.w) : 0;
  if (several) draw_list(context, {rect.x + gap, rect.y + gap, list - gap, rect.h - 2 * gap});
  draw_picture(context, {rect.x + list + gap, rect.y + gap, rect.w - list - 2 * gap, rect.h - 2 * gap});
}

}  // namespace keyscope::window
