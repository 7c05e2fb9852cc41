#include "app/panels/heads_panel.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "app/figures/colour_map.hpp"

namespace keyscope::window {
namespace {

using session::HeadKey;
using session::MeasureChoice;
using session::SessionState;

// The colour scale of a measure over the heads that have it so far.
struct Scale {
  double low = 0, high = 1;
  int n_known = 0;
};

std::optional<double> value_of(const SessionState& state, const MeasureChoice& choice, const HeadKey& head) {
  const auto found = state.measured.find(head);
  return found == state.measured.end() ? std::nullopt : found->second.measures.*choice.value;
}

// A diverging map is centred at 0, so that its middle colour always means "none".
Scale scale_of(const SessionState& state, const MeasureChoice& choice) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  Scale scale;
  for (const auto& [head, measured] : state.measured) {
    if (head.run != state.selection.run) continue;
    ++scale.n_known;
    const auto value = measured.measures.*choice.value;
    if (!value || !std::isfinite(*value)) continue;
    low = std::min(low, *value);
    high = std::max(high, *value);
  }
  if (low > high) return {0, 1, scale.n_known};
  if (choice.colour_map == figures::ColourMap::kDiverging) {
    high = std::max({std::abs(low), std::abs(high), 1e-6});
    low = -high;
  } else if (high - low < 1e-9) {
    low -= 0.5;
    high += 0.5;
  }
  scale.low = low;
  scale.high = high;
  return scale;
}

ImU32 cell_colour(const PanelContext& context, const MeasureChoice& choice, const Scale& scale,
                  const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return context.theme.missing;
  const auto& table = figures::colour_table(choice.colour_map);
  const double share = std::clamp((*value - scale.low) / (scale.high - scale.low), 0.0, 1.0);
  return to_colour(table[static_cast<std::size_t>(std::lround(share * (figures::kColourMapSize - 1)))]);
}

void draw_measure_choice(PanelContext& context) {
  const auto choices = session::measure_choices();
  const MeasureChoice& chosen = choices[context.state().measure];
  ImGui::SetNextItemWidth(-1);
  if (ImGui::BeginCombo("##measure", chosen.label)) {
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (ImGui::Selectable(choices[i].label, i == context.state().measure))
        context.session.choose_measure(i);
      if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", choices[i].meaning);
    }
    ImGui::EndCombo();
  } else if (ImGui::IsItemHovered()) {
    ImGui::SetTooltip("%s", chosen.meaning);
  }
  const ImVec2 low = ImGui::GetItemRectMin();
  const ImVec2 high = ImGui::GetItemRectMax();
  context.widgets["measure"] = {low.x, low.y, high.x - low.x, high.y - low.y};
}

void draw_colour_bar(PanelContext& context, const MeasureChoice& choice, const Scale& scale) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  const float height = context.px(8);
  const auto& table = figures::colour_table(choice.colour_map);
  constexpr int kSteps = 64;
  for (int i = 0; i < kSteps; ++i) {
    const ImU32 left = to_colour(table[static_cast<std::size_t>(i * 255 / kSteps)]);
    const ImU32 right = to_colour(table[static_cast<std::size_t>((i + 1) * 255 / kSteps)]);
    const float x0 = at.x + width * static_cast<float>(i) / kSteps;
    const float x1 = at.x + width * static_cast<float>(i + 1) / kSteps;
    list.AddRectFilledMultiColor({x0, at.y}, {x1, at.y + height}, left, right, right, left);
  }
  ImFont* font = context.fonts.small;
  const float text_y = at.y + height + context.px(3);
  const std::string low = session::format_measure(choice, scale.low);
  const std::string high = session::format_measure(choice, scale.high);
  draw_text(list, font, {at.x, text_y}, context.theme.dim, low);
  draw_text(list, font, {at.x + width - text_size(font, high).x, text_y}, context.theme.dim, high);
  const int n_heads =
      static_cast<int>(context.state().info->layers.size()) * context.state().info->model.n_kv_heads;
  const std::string middle =
      scale.n_known < n_heads ? fmt::format("{} of {} heads measured", scale.n_known, n_heads)
                              : std::string(choice.colour_map == figures::ColourMap::kDiverging ? "0" : "");
  draw_text(list, font, {at.x + 0.5F * (width - text_size(font, middle).x), text_y}, context.theme.dim,
            middle);
  ImGui::Dummy({width, height + context.px(3) + font->FontSize});
}

// Where the cells lie.
struct Grid {
  ImVec2 origin;
  float cell_w = 0, cell_h = 0;
  int rows = 0, columns = 0;
};

Grid lay_out_grid(const PanelContext& context, float height) {
  const auto& info = *context.state().info;
  Grid grid;
  grid.rows = static_cast<int>(info.layers.size());
  grid.columns = info.model.n_kv_heads;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float labels_w = context.px(30);
  const float labels_h = context.px(18);
  grid.origin = {at.x + labels_w, at.y + labels_h};
  grid.cell_w = (ImGui::GetContentRegionAvail().x - labels_w) / static_cast<float>(grid.columns);
  grid.cell_h =
      std::min((height - labels_h) / static_cast<float>(grid.rows), 1.25F * grid.cell_w + context.px(8));
  return grid;
}

// Labels of rows and columns, as many as there is room for.
void draw_grid_labels(const PanelContext& context, const Grid& grid) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  ImFont* font = context.fonts.small;
  const auto& layers = context.state().info->layers;
  const int every_row = std::max(1, static_cast<int>(std::ceil(font->FontSize * 1.1F / grid.cell_h)));
  for (int r = 0; r < grid.rows; r += every_row) {
    const std::string label = std::to_string(layers[static_cast<std::size_t>(r)]);
    const float y = grid.origin.y + (static_cast<float>(r) + 0.5F) * grid.cell_h - 0.5F * font->FontSize;
    const bool selected = layers[static_cast<std::size_t>(r)] == context.state().selection.layer;
    draw_text(list, font, {grid.origin.x - context.px(7) - text_size(font, label).x, y},
              selected ? context.theme.text : context.theme.dim, label);
  }
  const float wanted = text_size(font, "00").x + context.px(4);
  const int every_column = std::max(1, static_cast<int>(std::ceil(wanted / grid.cell_w)));
  for (int c = 0; c < grid.columns; c += every_column) {
    const std::string label = std::to_string(c);
    const float x = grid.origin.x + (static_cast<float>(c) + 0.5F) * grid.cell_w;
    draw_text(list, font, {x - 0.5F * text_size(font, label).x, grid.origin.y - context.px(17)},
              c == context.state().selection.kv_head ? context.theme.text : context.theme.dim, label);
  }
}

void draw_cell(PanelContext& context, const Grid& grid, const MeasureChoice& choice, const Scale& scale,
               int r, int c) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const int layer = context.state().info->layers[static_cast<std::size_t>(r)];
  const auto value = value_of(context.state(), choice, {context.state().selection.run, layer, c});
  const float gap = grid.cell_h > context.px(10) && grid.cell_w > context.px(10) ? context.px(1) : 0;
  const ImVec2 low(grid.origin.x + static_cast<float>(c) * grid.cell_w + gap,
                   grid.origin.y + static_cast<float>(r) * grid.cell_h + gap);
  const ImVec2 high(grid.origin.x + static_cast<float>(c + 1) * grid.cell_w - gap,
                    grid.origin.y + static_cast<float>(r + 1) * grid.cell_h - gap);
  const ImU32 colour = cell_colour(context, choice, scale, value);
  const float rounding = gap > 0 ? context.px(3) : 0;
  list.AddRectFilled(low, high, colour, rounding);
  const std::string label = session::format_measure(choice, value);
  const ImVec2 size = text_size(context.fonts.small, label);
  if (!value || size.x + context.px(8) > high.x - low.x || size.y + context.px(4) > high.y - low.y) return;
  draw_text(list, context.fonts.small, {0.5F * (low.x + high.x - size.x), 0.5F * (low.y + high.y - size.y)},
            text_on(colour), label);
}

void draw_selection_frame(PanelContext& context, const Grid& grid) {
  const auto& layers = context.state().info->layers;
  const auto row = std::ranges::find(layers, context.state().selection.layer) - layers.begin();
  const float x = grid.origin.x + static_cast<float>(context.state().selection.kv_head) * grid.cell_w;
  const float y = grid.origin.y + static_cast<float>(row) * grid.cell_h;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRect({x - 1, y - 1}, {x + grid.cell_w + 1, y + grid.cell_h + 1}, context.theme.panel, context.px(4),
               0, context.px(4.5F));
  list.AddRect({x, y}, {x + grid.cell_w, y + grid.cell_h}, context.theme.text, context.px(4), 0,
               context.px(2));
}

void draw_map(PanelContext& context, const MeasureChoice& choice, const Scale& scale, float height) {
  const Grid grid = lay_out_grid(context, height);
  draw_grid_labels(context, grid);
  for (int r = 0; r < grid.rows; ++r)
    for (int c = 0; c < grid.columns; ++c) draw_cell(context, grid, choice, scale, r, c);
  draw_selection_frame(context, grid);

  const ImVec2 size(grid.cell_w * static_cast<float>(grid.columns),
                    grid.cell_h * static_cast<float>(grid.rows));
  ImGui::SetCursorScreenPos(grid.origin);
  ImGui::InvisibleButton("map", {std::max(1.0F, size.x), std::max(1.0F, size.y)});
  context.widgets["heads"] = {grid.origin.x, grid.origin.y, size.x, size.y};
  if (!ImGui::IsItemHovered()) return;
  const ImVec2 mouse = ImGui::GetMousePos();
  const int r = std::clamp(static_cast<int>((mouse.y - grid.origin.y) / grid.cell_h), 0, grid.rows - 1);
  const int c = std::clamp(static_cast<int>((mouse.x - grid.origin.x) / grid.cell_w), 0, grid.columns - 1);
  const int layer = context.state().info->layers[static_cast<std::size_t>(r)];
  if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) context.session.select_head(layer, c);
  const auto value = value_of(context.state(), choice, {context.state().selection.run, layer, c});
  ImGui::SetTooltip("Layer %d, KV head %d\n%s: %s", layer, c, choice.label,
                    session::format_measure(choice, value).c_str());
}

}  // namespace

void draw_heads_panel(PanelContext& context, const Rect& rect) {
  begin_panel("heads", rect);
  heading(context, "Heads");
  ImGui::SameLine();
  const std::string axes = "layer ↓  KV head →";
  ImGui::SetCursorPosX(ImGui::GetWindowContentRegionMax().x - text_size(context.fonts.small, axes).x);
  dim_text(context, axes);
  draw_measure_choice(context);
  const MeasureChoice& choice = session::measure_choices()[context.state().measure];
  const Scale scale = scale_of(context.state(), choice);
  const float bar = context.px(8 + 3 + 8) + context.fonts.small->FontSize;
  const std::string& error = context.state().measures_error;
  const float room = ImGui::GetContentRegionAvail().y - bar - (error.empty() ? 0 : context.px(44));
  draw_map(context, choice, scale, std::max(context.px(40), room));
  ImGui::SetCursorPosX(ImGui::GetStyle().WindowPadding.x);
  ImGui::Dummy({1, context.px(1)});
  draw_colour_bar(context, choice, scale);
  if (!error.empty()) {
    ImGui::PushStyleColor(ImGuiCol_Text, context.theme.error);
    ImGui::TextWrapped("%s", error.c_str());
    ImGui::PopStyleColor();
  }
  end_panel();
}

}  // namespace keyscope::window
