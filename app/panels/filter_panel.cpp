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
constexpr double kFar = std::numeric_limits<double>::infinity();

}  // namespace

void FilterPanel::measure(const PanelContext& context) {
  const auto& tile = context.state().selected();
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

// The tokens that lie in all chosen parts are selected, and the histograms show what the others leave.
void FilterPanel::choose(PanelContext& context, bool settled) {
  context.session.select_tokens(chooses() ? figures::chosen_tokens(quantities_) : session::TokenSet(),
                                settled);
  chosen_ = context.state().tokens;
  count();
}

void FilterPanel::count() {
  histograms_.clear();
  for (std::size_t which = 0; which < quantities_.size(); ++which)
    histograms_.push_back(figures::histogram_of(quantities_, which, kBins));
}

bool FilterPanel::chooses() const {
  return std::ranges::any_of(quantities_, [](const auto& quantity) { return quantity.chosen.has_value(); });
}

void FilterPanel::draw_bars(const PanelContext& context, std::size_t which, const Rect& plot) const {
  const figures::TokenQuantity& quantity = quantities_[which];
  const figures::FilteredHistogram& histogram = histograms_[which];
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled({plot.x, plot.y}, {plot.right(), plot.bottom()}, context.theme.plot);
  const auto most = static_cast<float>(std::max<std::int64_t>(1, std::ranges::max(histogram.all)));
  const float bin = plot.width / kBins;
  const auto bar = [&](int at, std::int64_t count, ImU32 colour) {
    if (count == 0) return;
    // What is there can be seen, however little it is beside the most.
    const float height = std::max(context.px(1.5F), plot.height * static_cast<float>(count) / most);
    const float left = plot.x + bin * static_cast<float>(at);
    list.AddRectFilled({left, plot.bottom() - height}, {left + bin - 0.5F, plot.bottom()}, colour);
  };
  for (int at = 0; at < kBins; ++at) {
    bar(at, histogram.all[at], with_alpha(context.theme.dim, 0.55F));
    bar(at, histogram.chosen[at], context.theme.accent);
  }
  if (!quantity.chosen) return;
  const auto x_of = [&](double value) {
    return plot.x + plot.width * static_cast<float>(quantity.share(histogram.range, value));
  };
  const float left = x_of(quantity.chosen->low), right = x_of(quantity.chosen->high);
  list.AddRectFilled({left, plot.y}, {right, plot.bottom()}, with_alpha(context.theme.text, 0.10F));
  for (const float x : {left, right}) list.AddLine({x, plot.y}, {x, plot.bottom()}, context.theme.text);
}

// A drag chooses a part, a click all again. A part that reaches an end has what lies beyond the axis as well.
void FilterPanel::take_mouse(PanelContext& context, std::size_t which, const Rect& plot) {
  figures::TokenQuantity& quantity = quantities_[which];
  const figures::Range& range = histograms_[which].range;
  const double share = std::clamp<double>((ImGui::GetMousePos().x - plot.x) / plot.width, 0, 1);
  if (ImGui::IsItemActivated()) {
    dragged_ = static_cast<int>(which);
    from_ = to_ = share;
  }
  if (dragged_ != static_cast<int>(which)) {
    if (ImGui::IsItemHovered() && !ImGui::IsAnyItemActive())
      ImGui::SetTooltip("Drag: only tokens with this %s; click: all of them again", quantity.label.c_str());
    return;
  }
  const bool settled = !ImGui::IsItemActive();
  if (share == to_ && !settled) return;
  to_ = share;
  if (settled) dragged_ = -1;
  const double low = std::min(from_, to_), high = std::max(from_, to_);
  quantity.chosen.reset();
  if ((high - low) * plot.width >= context.px(kLeastDragPx))
    quantity.chosen = figures::Range{low > 0 ? quantity.value_at(range, low) : -kFar,
                                     high < 1 ? quantity.value_at(range, high) : kFar};
  choose(context, settled);
}

void FilterPanel::draw_one(PanelContext& context, std::size_t which, const Rect& rect) {
  const figures::TokenQuantity& quantity = quantities_[which];
  const figures::Range range = histograms_[which].range;
  const Font& font = context.fonts.small;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  draw_text(list, font, {rect.x, rect.y}, context.theme.dim, fit_text(font, quantity.label, rect.width));
  const float line = font.size + context.px(4);
  const Rect plot{rect.x, rect.y + line, rect.width, rect.height - 2 * line};
  const bool known = range.high >= range.low;
  const auto ends = quantity.chosen.value_or(range);
  const auto says = [&](double value) {
    value = std::clamp(value, range.low, range.high);
    return quantity.id == "position" ? format_count(std::llround(value)) : format_value(value, 2);
  };
  const std::string low = known ? says(ends.low) : "none has one", high = known ? says(ends.high) : "";
  const float below = plot.bottom() + context.px(2);
  draw_text(list, font, {plot.x, below}, context.theme.dim, low);
  draw_text(list, font, {plot.right() - text_size(font, high).x, below}, context.theme.dim, high);
  draw_bars(context, which, plot);
  ImGui::SetCursorScreenPos({plot.x, plot.y});
  ImGui::PushID(static_cast<int>(which));
  ImGui::InvisibleButton("histogram", {plot.width, plot.height});
  ImGui::PopID();
  note_widget(context, "filter_" + quantity.id);
  if (known) take_mouse(context, which, plot);
}

void FilterPanel::draw(PanelContext& context, const Rect& rect) {
  const auto& tile = context.state().selected();
  if (!tile.points || tile.block < 0 || tile.block >= tile.points->n_blocks())
    return dim_text(context, "the head's keys were not read yet");
  // Where tokens were selected elsewhere, or let go, nothing is chosen here any more.
  if (chooses() && dragged_ < 0 && context.state().tokens != chosen_) {
    for (auto& quantity : quantities_) quantity.chosen.reset();
    count();
  }
  if (measured_ != std::pair(tile.points, tile.block)) {
    measure(context);
    chooses() ? choose(context, false) : count();
  }
  const auto& tokens = context.state().tokens;
  const std::string says =
      chosen_ && tokens == chosen_ ? fmt::format("{} of {} tokens chosen; Esc: all",
                                                 format_count(std::ssize(*tokens)), format_count(tile.n_seen))
      : chooses()                  ? std::string("no token lies in all chosen parts")
                  : std::string("Drag across a histogram: the tokens in that part are selected everywhere");
  dim_text(context, fit_text(context.fonts.small, says, rect.width));
  const float gap = context.px(kGapPx), n = static_cast<float>(quantities_.size());
  const float line = context.fonts.small.size + context.px(8);
  const Rect all{rect.x, rect.y + line, rect.width, rect.height - line};
  const float width = (all.width - (n - 1) * gap) / n;
  for (std::size_t which = 0; which < quantities_.size(); ++which)
    draw_one(context, which, {all.x + static_cast<float>(which) * (width + gap), all.y, width, all.height});
}

}  // namespace keyscope::window
