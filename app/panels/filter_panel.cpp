#include "app/panels/filter_panel.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "app/display/widgets.hpp"
#include "app/figures/axis_ticks.hpp"
#include "base/text.hpp"

namespace keyscope::window {

namespace {

constexpr int kBins = 40;
constexpr float kGapPx = 14, kLeastDragPx = 3;

}  // namespace

void FilterPanel::measure(const PanelContext& context) {
  const auto& tile = context.state().selected();
  if (measured_ == std::pair(tile.points, tile.block)) return;
  measured_ = {tile.points, tile.block};
  const session::HeadPoints& points = *tile.points;
  const auto before = std::exchange(quantities_, {});
  const auto add = [&](const char* id, const char* label, std::vector<double> values, bool logarithmic) {
    const auto same = std::ranges::find(before, id, &figures::TokenQuantity::id);
    quantities_.push_back({id, label, std::move(values), logarithmic,
                           same != before.end() ? same->chosen : std::optional<figures::Range>()});
  };
  const std::int64_t n = points.seen[tile.block];
  std::vector<double> position(n), norm(n), margin(n, std::numeric_limits<double>::quiet_NaN());
  for (std::int64_t i = 0; i < n; ++i) {
    position[i] = static_cast<double>(i);
    norm[i] = points.keys.row(i).cast<double>().norm();
    const std::int32_t gone = points.trace.evicted_at[i];
    if (gone >= 0 && gone <= tile.block) margin[i] = points.trace.evicted_margin[i];
  }
  const auto values = [&](session::TokenShade shade) {
    return session::token_values(*tile.info, points, tile.block, shade);
  };
  add("position", "position", std::move(position), false);
  add("score", "KeyDiff score", values(session::TokenShade::kScore), false);
  add("attention", "attention received", values(session::TokenShade::kAttention), true);
  add("norm", "norm of the key", std::move(norm), false);
  add("margin", "margin of eviction", std::move(margin), false);
}

void FilterPanel::choose(PanelContext& context, bool settled) {
  const bool any =
      std::ranges::any_of(quantities_, [](const auto& quantity) { return quantity.chosen.has_value(); });
  context.session.select_tokens(any ? figures::chosen_tokens(quantities_) : session::TokenSet(), settled);
  chosen_ = context.state().tokens;
}

void FilterPanel::draw_one(PanelContext& context, std::size_t which, const Rect& rect) {
  figures::TokenQuantity& quantity = quantities_[which];
  const figures::FilteredHistogram& histogram = histograms_[which];
  const Font& font = context.fonts.small;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  draw_text(list, font, {rect.x, rect.y}, context.theme.dim, fit_text(font, quantity.label, rect.width));
  const float line = font.size + context.px(4);
  const Rect plot{rect.x, rect.y + line, rect.width, rect.height - 2 * line};
  list.AddRectFilled({plot.x, plot.y}, {plot.right(), plot.bottom()}, context.theme.plot);
  const std::int64_t most = std::max<std::int64_t>(1, std::ranges::max(histogram.all));
  const bool known = histogram.range.high >= histogram.range.low;
  const float bin = plot.width / kBins;
  const auto bar = [&](int at, std::int64_t count, ImU32 colour) {
    if (count == 0) return;
    // What is there can be seen, however little it is beside the most.
    const float height =
        std::max(context.px(1.5F), plot.height * static_cast<float>(count) / static_cast<float>(most));
    const float left = plot.x + bin * static_cast<float>(at);
    list.AddRectFilled({left, plot.bottom() - height}, {left + bin - 0.5F, plot.bottom()}, colour);
  };
  for (int at = 0; at < kBins && known; ++at) {
    bar(at, histogram.all[at], with_alpha(context.theme.dim, 0.55F));
    bar(at, histogram.chosen[at], context.theme.accent);
  }
  const auto x_of = [&](double value) {
    return plot.x + plot.width * static_cast<float>(quantity.share(histogram.range, value));
  };
  if (quantity.chosen && known) {
    const float left = x_of(quantity.chosen->low), right = x_of(quantity.chosen->high);
    list.AddRectFilled({left, plot.y}, {right, plot.bottom()}, with_alpha(context.theme.text, 0.10F));
    for (const float x : {left, right}) list.AddLine({x, plot.y}, {x, plot.bottom()}, context.theme.text);
  }
  const auto ends = quantity.chosen.value_or(histogram.range);
  const auto says = [&](double value) {
    return quantity.id == "position" ? format_count(std::llround(value)) : format_value(value, 2);
  };
  const std::string low = known ? says(ends.low) : "none has one", high = known ? says(ends.high) : "";
  draw_text(list, font, {plot.x, plot.bottom() + context.px(2)}, context.theme.dim, low);
  draw_text(list, font, {plot.right() - text_size(font, high).x, plot.bottom() + context.px(2)},
            context.theme.dim, high);

  ImGui::SetCursorScreenPos({plot.x, plot.y});
  ImGui::PushID(static_cast<int>(which));
  ImGui::InvisibleButton("histogram", {plot.width, plot.height});
  ImGui::PopID();
  note_widget(context, "filter_" + quantity.id);
  if (!known) return;
  const double share = std::clamp<double>((ImGui::GetMousePos().x - plot.x) / plot.width, 0, 1);
  if (ImGui::IsItemActivated()) {
    dragged_ = static_cast<int>(which);
    from_ = share;
  }
  if (dragged_ != static_cast<int>(which)) {
    if (ImGui::IsItemHovered() && !ImGui::IsAnyItemActive())
      ImGui::SetTooltip("Drag: only tokens with this %s; click: all of them again", quantity.label.c_str());
    return;
  }
  const bool settled = !ImGui::IsItemActive();
  const bool drawn = std::abs(share - from_) * plot.width >= context.px(kLeastDragPx);
  const auto before = quantity.chosen;
  const auto value = [&](double at) { return quantity.value_at(histogram.range, at); };
  if (drawn)
    quantity.chosen = figures::Range{value(std::min(share, from_)), value(std::max(share, from_))};
  else
    quantity.chosen.reset();
  if (settled) dragged_ = -1;
  const bool same =
      before.has_value() == quantity.chosen.has_value() &&
      (!before || (before->low == quantity.chosen->low && before->high == quantity.chosen->high));
  if (!same || settled) choose(context, settled);
}

void FilterPanel::draw(PanelContext& context, const Rect& rect) {
  const auto& tile = context.state().selected();
  if (!tile.points || tile.block < 0 || tile.block >= tile.points->n_blocks())
    return dim_text(context, "the head's keys were not read yet");
  const bool chooses =
      std::ranges::any_of(quantities_, [](const auto& quantity) { return quantity.chosen.has_value(); });
  // Where tokens were selected elsewhere, or let go, nothing is chosen here any more.
  if (chooses && dragged_ < 0 && context.state().tokens != chosen_)
    for (auto& quantity : quantities_) quantity.chosen.reset();
  else if (chooses && measured_ != std::pair(tile.points, tile.block))
    measure(context), choose(context, false);
  measure(context);
  histograms_.clear();
  for (std::size_t which = 0; which < quantities_.size(); ++which)
    histograms_.push_back(figures::histogram_of(quantities_, which, kBins));
  const float gap = context.px(kGapPx), n = static_cast<float>(quantities_.size());
  const float line = context.fonts.small.size + context.px(4);
  const auto n_chosen = context.state().tokens ? std::ssize(*context.state().tokens) : 0;
  const std::string says =
      chosen_ && context.state().tokens == chosen_
          ? fmt::format("{} of {} tokens chosen; Esc: all", format_count(n_chosen), format_count(tile.n_seen))
      : chooses ? std::string("no token lies in all chosen parts")
                : std::string("Drag across a histogram: the tokens in that part are selected everywhere");
  dim_text(context, fit_text(context.fonts.small, says, rect.width));
  const Rect all{rect.x, rect.y + line + context.px(4), rect.width, rect.height - line - context.px(4)};
  const float width = (all.width - (n - 1) * gap) / n;
  for (std::size_t which = 0; which < quantities_.size(); ++which)
    draw_one(context, which, {all.x + static_cast<float>(which) * (width + gap), all.y, width, all.height});
}

}  // namespace keyscope::window
