#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "app/display/widgets.hpp"
#include "app/figures/scales.hpp"
#include "app/panels/panel_context.hpp"
#include "app/panels/panels.hpp"
#include "base/text.hpp"

namespace keyscope::window {

namespace {

using session::MeasureChoice;

constexpr float kPopupWidth = 450, kPopupHeight = 560;
constexpr float kReferenceShare = 0.4F;

void draw_measure(PanelContext& context, std::size_t index, const MeasureChoice& choice) {
  const bool chosen = index == context.state().measure;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float line = context.fonts.regular.size, small = context.fonts.small.size;
  const ImVec2 size(ImGui::GetContentRegionAvail().x, line + small + context.px(9));
  ImGui::PushID(choice.id);
  if (ImGui::Selectable("##choose", chosen, 0, size)) context.session.choose_measure(index);
  ImGui::PopID();
  note_widget(context, fmt::format("measure_{}", choice.id));
  if (chosen && ImGui::IsWindowAppearing()) ImGui::SetScrollHereY();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float left = at.x + context.px(6), room = size.x - context.px(12);
  draw_text(list, chosen ? context.fonts.bold : context.fonts.regular, {left, at.y + context.px(2)},
            context.theme.text, fit_text(context.fonts.bold, session::measure_label(choice), room));
  draw_text(list, context.fonts.small, {left, at.y + line + context.px(4)}, context.theme.dim,
            fit_text(context.fonts.small, choice.meaning, room));
}

// Under their groups, those whose name or meaning holds what is typed.
void draw_measure_choice(PanelContext& context) {
  const auto choices = session::measure_choices();
  static std::string wanted;  // while the box is open
  if (ImGui::IsWindowAppearing()) {
    wanted.clear();
    ImGui::SetKeyboardFocusHere();
  }
  ImGui::SetNextItemWidth(-1);
  const bool entered =
      text_field(context, "##wanted", "find a measure", &wanted, ImGuiInputTextFlags_EnterReturnsTrue);
  note_widget(context, "measure_filter");
  const auto has = [](std::string_view text) {
    return lower_case(text).find(lower_case(wanted)) != std::string::npos;
  };
  const auto is_wanted = [&](const MeasureChoice& choice) {
    return has(session::measure_label(choice)) || has(choice.meaning);
  };
  if (const auto first = std::ranges::find_if(choices, is_wanted); entered && first != choices.end()) {
    context.session.choose_measure(first - choices.begin());
    ImGui::CloseCurrentPopup();
  }
  for (std::size_t group = 0; group < choices.size(); ++group) {
    const std::string_view name = choices[group].group;
    bool first = true;
    for (std::size_t i = 0; i < group; ++i) first = first && choices[i].group != name;
    const auto is_shown = [&](const MeasureChoice& choice) {
      return choice.group == name && is_wanted(choice);
    };
    if (!first || std::ranges::none_of(choices, is_shown)) continue;
    dim_text(context, std::string(name));
    for (std::size_t i = group; i < choices.size(); ++i)
      if (is_shown(choices[i])) draw_measure(context, i, choices[i]);
    ImGui::Dummy({0, context.px(4)});
  }
}

// What is chosen, as far as a box of this width shows it.
std::string in_box(const PanelContext& context, const std::string& text, float width) {
  return fit_text(context.fonts.regular, text,
                  width - ImGui::GetFrameHeight() - 2 * ImGui::GetStyle().FramePadding.x);
}

void draw_measure_box(PanelContext& context, float width) {
  const MeasureChoice& chosen = session::measure_choices()[context.state().measure];
  ImGui::SetNextItemWidth(width);
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  const ImVec2 most(std::min(context.px(kPopupWidth), display.x),
                    std::min(context.px(kPopupHeight), 0.8F * display.y));
  ImGui::SetNextWindowSizeConstraints({most.x, 0}, most);
  const bool open =
      ImGui::BeginCombo("##measure", in_box(context, session::measure_label(chosen), width).c_str());
  if (open) {
    draw_measure_choice(context);
    ImGui::EndCombo();
  } else if (ImGui::IsItemHovered()) {
    ImGui::SetTooltip("%s\n(M: the next measure)", chosen.meaning);
  }
  if (!open) note_widget(context, "measure");
}

void draw_run(PanelContext& context, int run, const std::string& label) {
  if (ImGui::Selectable(label.c_str(), run == context.state().reference))
    context.session.choose_reference(run);
  note_widget(context, fmt::format("reference_{}", run));
}

void draw_reference_box(PanelContext& context, float width) {
  const auto& state = context.state();
  const bool overlap = session::measure_choices()[state.measure].of_two_runs();
  const int reference = state.map_choice().reference;
  const auto name_of = [&](int run) { return state.info->runs[run].plan.name; };
  const char* sign = overlap ? "with" : "−";
  ImGui::SetNextItemWidth(width);
  const std::string shown = reference < 0 ? "alone" : fmt::format("{} {}", sign, name_of(reference));
  const bool open = ImGui::BeginCombo("##reference", in_box(context, shown, width).c_str());
  if (open) {
    if (!overlap) draw_run(context, -1, "alone");
    for (int run = 0; run < static_cast<int>(state.info->runs.size()); ++run)
      if (run != state.selection.run) draw_run(context, run, fmt::format("{} {}", sign, name_of(run)));
    ImGui::EndCombo();
  } else if (ImGui::IsItemHovered()) {
    ImGui::SetTooltip(overlap ? "The run whose retained tokens are compared"
                              : "The run whose values are taken off, head by head");
  }
  if (!open) note_widget(context, "reference");
}

// Two boxes side by side at the cursor: what the map of heads is coloured by, each measure with a line of
// explanation, and the run that it is compared with.
void draw_map_choice(PanelContext& context) {
  const float width = ImGui::GetContentRegionAvail().x, gap = context.px(4);
  const bool several = context.state().info->runs.size() > 1;
  const float second = several ? kReferenceShare * (width - gap) : 0;
  draw_measure_box(context, width - second - (several ? gap : 0));
  if (!several) return;
  ImGui::SameLine(0, gap);
  draw_reference_box(context, second);
}

using session::HeadMap;

const MeasureChoice& choice_of(const HeadMap& map) { return session::measure_choices()[map.choice.measure]; }

ImU32 cell_colour(const PanelContext& context, const HeadMap& map, const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return context.theme.missing;
  const auto& table = figures::colour_table(map.scale.colour_map);
  const double share = std::clamp((*value - map.scale.low) / (map.scale.high - map.scale.low), 0.0, 1.0);
  return to_colour(table[static_cast<std::size_t>(std::lround(share * (figures::kColourMapSize - 1)))]);
}

bool has_values(const HeadMap& map) {
  return std::ranges::any_of(map.cells, [](const HeadMap::Cell& cell) { return cell.value.has_value(); });
}

// What stands between the ends of the scale.
std::string scale_note(const PanelContext& context, const HeadMap& map) {
  const int n_heads = static_cast<int>(map.cells.size());
  if (map.n_measured < n_heads && context.state().measures_error.empty())
    return fmt::format("{} of {} heads measured", map.n_measured, n_heads);
  if (!has_values(map)) return "no head has a value";
  if (map.of_first > 0) return fmt::format("of the first {} tokens", format_count(map.of_first));
  std::string unit = choice_of(map).unit;
  if (map.scale.colour_map != figures::ColourMap::kDiverging) return unit;
  return unit.empty() ? "0" : "0 " + unit;
}

void draw_colour_bar(PanelContext& context, const HeadMap& map) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x;
  const float height = context.px(8);
  const auto& table = figures::colour_table(map.scale.colour_map);
  constexpr int kSteps = 64;
  for (int i = 0; i < kSteps; ++i) {
    const ImU32 left = to_colour(table[i * 255 / kSteps]);
    const ImU32 right = to_colour(table[(i + 1) * 255 / kSteps]);
    const float x0 = at.x + width * static_cast<float>(i) / kSteps;
    const float x1 = at.x + width * static_cast<float>(i + 1) / kSteps;
    list.AddRectFilledMultiColor({x0, at.y}, {x1, at.y + height}, left, right, right, left);
  }
  const Font& font = context.fonts.small;
  const float text_y = at.y + height + context.px(3);
  const auto end_of_scale = [&](double value) {
    return has_values(map) ? session::format_measure(choice_of(map), value) : std::string();
  };
  const std::string low = end_of_scale(map.scale.low), high = end_of_scale(map.scale.high);
  const float low_w = text_size(font, low).x, high_w = text_size(font, high).x;
  draw_text(list, font, {at.x, text_y}, context.theme.dim, low);
  draw_text(list, font, {at.x + width - high_w, text_y}, context.theme.dim, high);
  const std::string middle =
      fit_text(font, scale_note(context, map), width - 2 * std::max(low_w, high_w) - context.px(8));
  draw_text(list, font, {at.x + 0.5F * (width - text_size(font, middle).x), text_y}, context.theme.dim,
            middle);
  ImGui::Dummy({width, height + context.px(3) + font.size});
}

// Where the cells lie.
struct Grid {
  ImVec2 origin;
  float cell_w = 0, cell_h = 0;
  std::vector<int> layers;  // of the rows: with keys or without
  int rows = 0, columns = 0;
};

Grid lay_out_grid(const PanelContext& context, float height) {
  const auto& info = *context.state().info;
  Grid grid;
  grid.layers = info.all_layers();
  grid.rows = static_cast<int>(grid.layers.size());
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
  const Font& font = context.fonts.small;
  const auto& layers = grid.layers;
  const int every_row = std::max(1, static_cast<int>(std::ceil(font.size * 1.1F / grid.cell_h)));
  for (int r = 0; r < grid.rows; r += every_row) {
    const std::string label = std::to_string(layers[r]);
    const float y = grid.origin.y + (static_cast<float>(r) + 0.5F) * grid.cell_h - 0.5F * font.size;
    const bool selected = layers[r] == context.state().selection.layer;
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

// A head without a value is hatched, so that it is not taken for a middling one.
void draw_hatching(const PanelContext& context, ImVec2 low, ImVec2 high) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float step = context.px(7), h = high.y - low.y;
  list.PushClipRect(low, high, true);
  const int n_lines = static_cast<int>(std::ceil((high.x - low.x + h) / step));
  for (int i = 0; i < n_lines; ++i) {
    const float x = low.x - h + static_cast<float>(i) * step;
    list.AddLine({x, high.y}, {x + h, low.y}, with_alpha(context.theme.dim, 0.35F));
  }
  list.PopClipRect();
}

// As many decimals as every number of the map has room for, so that none stands where another is left out;
// -1: there is no room for any.
int shown_decimals(const PanelContext& context, const Grid& grid, const HeadMap& map) {
  const Font& font = context.fonts.small;
  if (font.size + context.px(6) > grid.cell_h) return -1;
  MeasureChoice choice = choice_of(map);
  for (const int least = std::min(choice.decimals, 1); choice.decimals >= least; --choice.decimals) {
    float widest = 0;
    for (const HeadMap::Cell& cell : map.cells)
      if (cell.value)
        widest = std::max(widest, text_size(font, session::format_measure(choice, cell.value)).x);
    if (widest + context.px(6) <= grid.cell_w) return choice.decimals;
  }
  return -1;
}

// A layer that has no keys: a gap in the map, which says so where there is room.
void draw_keyless_row(const PanelContext& context, const Grid& grid, int r) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float width = grid.cell_w * static_cast<float>(grid.columns);
  const float middle = grid.origin.y + (static_cast<float>(r) + 0.5F) * grid.cell_h;
  const Font& font = context.fonts.small;
  const std::string label = "no keys";
  const ImVec2 size = text_size(font, label);
  const bool fits = size.x + context.px(16) <= width && size.y <= grid.cell_h;
  const float gap = fits ? 0.5F * size.x + context.px(6) : 0, x = grid.origin.x + 0.5F * width;
  const ImU32 colour = with_alpha(context.theme.dim, 0.5F);
  list.AddLine({grid.origin.x, middle}, {x - gap, middle}, colour);
  list.AddLine({x + gap, middle}, {grid.origin.x + width, middle}, colour);
  if (fits) draw_text(list, font, {x - 0.5F * size.x, middle - 0.5F * size.y}, context.theme.dim, label);
}

//   decimals: from shown_decimals
void draw_cell(PanelContext& context, const Grid& grid, const HeadMap& map, int decimals, int r, int c) {
  const HeadMap::Cell* cell = map.cell(*context.state().info, grid.layers[r], c);
  if (cell == nullptr) return;
  const auto& value = cell->value;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float gap = grid.cell_h > context.px(10) && grid.cell_w > context.px(10) ? context.px(1) : 0;
  const ImVec2 low(grid.origin.x + static_cast<float>(c) * grid.cell_w + gap,
                   grid.origin.y + static_cast<float>(r) * grid.cell_h + gap);
  const ImVec2 high(grid.origin.x + static_cast<float>(c + 1) * grid.cell_w - gap,
                    grid.origin.y + static_cast<float>(r + 1) * grid.cell_h - gap);
  const ImU32 colour = cell_colour(context, map, value);
  const float rounding = gap > 0 ? context.px(3) : 0;
  list.AddRectFilled(low, high, colour, rounding);
  if (!value) return draw_hatching(context, low, high);
  if (decimals < 0) return;
  MeasureChoice choice = choice_of(map);
  choice.decimals = decimals;
  const std::string label = session::format_measure(choice, value);
  const ImVec2 size = text_size(context.fonts.small, label);
  draw_text(list, context.fonts.small, {0.5F * (low.x + high.x - size.x), 0.5F * (low.y + high.y - size.y)},
            text_on(colour), label);
}

void draw_selection_frame(PanelContext& context, const Grid& grid) {
  const auto row = std::ranges::find(grid.layers, context.state().selection.layer) - grid.layers.begin();
  const float x = grid.origin.x + static_cast<float>(context.state().selection.kv_head) * grid.cell_w;
  const float y = grid.origin.y + static_cast<float>(row) * grid.cell_h;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRect({x - 1, y - 1}, {x + grid.cell_w + 1, y + grid.cell_h + 1}, context.theme.panel, context.px(4),
               0, context.px(4.5F));
  list.AddRect({x, y}, {x + grid.cell_w, y + grid.cell_h}, context.theme.text, context.px(4), 0,
               context.px(2));
}

void draw_cell_tooltip(const PanelContext& context, const HeadMap& map, int layer, int kv_head) {
  const HeadMap::Cell* cell = map.cell(*context.state().info, layer, kv_head);
  if (cell == nullptr) return;
  const std::string value =
      cell->value ? session::format_measure(choice_of(map), cell->value) + " " + choice_of(map).unit
                  : "no value: " + cell->missing;
  ImGui::SetTooltip("Layer %d, KV head %d\n%s: %s", layer, kv_head, map.scale.name.c_str(), value.c_str());
}

void draw_map(PanelContext& context, const HeadMap& map, float height) {
  const Grid grid = lay_out_grid(context, height);
  draw_grid_labels(context, grid);
  const int decimals = shown_decimals(context, grid, map);
  const auto& info = *context.state().info;
  for (int r = 0; r < grid.rows; ++r) {
    if (!info.has_keys(grid.layers[r])) draw_keyless_row(context, grid, r);
    for (int c = 0; c < grid.columns; ++c) draw_cell(context, grid, map, decimals, r, c);
  }
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
  const int layer = grid.layers[r];
  if (!info.has_keys(layer)) {
    ImGui::SetTooltip("Layer %d has no keys: its mixer is recurrent", layer);
    return;
  }
  if (const int n = info.model.heads(layer).n_kv_heads; c >= n) {
    ImGui::SetTooltip("Layer %d has %d KV head%s", layer, n, n == 1 ? "" : "s");
    return;
  }
  if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) context.session.select_head(layer, c);
  draw_cell_tooltip(context, map, layer, c);
}

// What is compared, and how the map is read.
void draw_heading(PanelContext& context, const HeadMap& map) {
  const float width = ImGui::GetContentRegionAvail().x;
  const std::string axes = "layer ↓  KV head →";
  if (map.title.empty()) return dim_text(context, axes);
  const float axes_w = text_size(context.fonts.small, axes).x;
  const bool both = text_size(context.fonts.bold, map.title).x + context.px(8) + axes_w <= width;
  const float right = ImGui::GetCursorPosX() + width;
  if (map.biased) ImGui::PushStyleColor(ImGuiCol_Text, context.theme.error);
  heading(context, fit_text(context.fonts.bold, map.title, width).c_str());
  if (map.biased) ImGui::PopStyleColor();
  if (map.biased && ImGui::IsItemHovered()) ImGui::SetTooltip("%s", measures::kBiasedByEviction.data());
  if (!both) return;
  ImGui::SameLine();
  ImGui::SetCursorPosX(right - axes_w);
  dim_text(context, axes);
}

}  // namespace

void draw_heads_panel(PanelContext& context) {
  const HeadMap& map = context.state().map;
  draw_heading(context, map);
  draw_map_choice(context);
  const float bar = context.px(8 + 3 + 8) + context.fonts.small.size;
  const std::string& error = context.state().measures_error;
  const float room = ImGui::GetContentRegionAvail().y - bar - (error.empty() ? 0 : context.px(44));
  draw_map(context, map, std::max(context.px(40), room));
  ImGui::SetCursorPosX(ImGui::GetStyle().WindowPadding.x);
  ImGui::Dummy({1, context.px(1)});
  draw_colour_bar(context, map);
  if (!error.empty()) {
    ImGui::PushStyleColor(ImGuiCol_Text, context.theme.error);
    ImGui::TextWrapped("%s", error.c_str());
    ImGui::PopStyleColor();
  }
}

}  // namespace keyscope::window
