#include "app/panels/difference_view.hpp"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>
#include <imgui.h>
#include <nlohmann/json.hpp>

#include "app/display/widgets.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/labels.hpp"
#include "app/session/tokens.hpp"
#include "base/text.hpp"

namespace keyscope::window {

namespace {

using measures::DifferingToken;
using measures::KeptBy;

const std::string& name_of(const session::SessionState& state, int run) {
  return state.info->runs[run].plan.name;
}

figures::Colour policy_colour(const session::SessionState& state, int run) {
  return figures::policy_look(state.info->runs[run].plan.policy).colour;
}

void draw_other_run(PanelContext& context) {
  const auto& state = context.state();
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted(fmt::format("{} against", name_of(state, state.selection.run)).c_str());
  ImGui::SameLine();
  ImGui::SetNextItemWidth(context.px(150));
  const bool open = ImGui::BeginCombo("##other", name_of(state, state.other_run()).c_str());
  note_widget(context, "other_run");
  if (!open) return;
  for (int run = 0; run < static_cast<int>(state.info->runs.size()); ++run) {
    if (run == state.selection.run) continue;
    if (ImGui::Selectable(name_of(state, run).c_str(), run == state.other_run()))
      context.session.choose_reference(run);
    note_widget(context, fmt::format("other_run_{}", run));
  }
  ImGui::EndCombo();
}

// One kind of row as a block of its colour, as long as there are many of them, with its words.
void draw_share(PanelContext& context, const std::string& label, std::int64_t n, std::int64_t all,
                figures::Colour colour) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x, names = 0.38F * width;
  const float height = context.fonts.small.size + context.px(4);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const std::string count = format_count(n);
  draw_text(list, context.fonts.small, at, context.theme.text,
            fit_text(context.fonts.small, label, names - context.px(60)));
  draw_text(list, context.fonts.small,
            {at.x + names - context.px(10) - text_size(context.fonts.small, count).x, at.y},
            context.theme.text, count);
  const float bar =
      (width - names) * static_cast<float>(n) / static_cast<float>(std::max<std::int64_t>(1, all));
  list.AddRectFilled({at.x + names, at.y + context.px(2)},
                     {at.x + names + bar, at.y + height - context.px(4)}, ink_colour(context.theme, colour),
                     context.px(2));
  ImGui::Dummy({width, height});
}

void draw_shares(PanelContext& context, const measures::PolicyDifference& difference) {
  const auto& state = context.state();
  const std::string &a = name_of(state, state.selection.run), &b = name_of(state, state.other_run());
  const std::array shares{difference.n_both, difference.n_only_a, difference.n_only_b, difference.n_neither};
  const std::array labels{std::string("kept by both"), "only by " + a, "only by " + b,
                          std::string("by neither")};
  const std::array colours{figures::kBlue, policy_colour(state, state.selection.run),
                           policy_colour(state, state.other_run()), figures::kOrange};
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, 0});
  for (std::size_t kind = 0; kind < shares.size(); ++kind)
    draw_share(context, labels[kind], shares[kind], difference.n_seen, colours[kind]);
  ImGui::PopStyleVar();
}

// What each run lost, in one line; or why that is not known.
std::string lost_text(const session::SessionState& state) {
  const session::MadeDifference& made = state.difference;
  if (!made.whole) return "attention: reading …";
  const auto& difference = *made.difference;
  if (!difference.missing.empty()) return "What was lost is not known: " + difference.missing;
  double lost_by_b = 0, lost_by_a = 0;
  for (const DifferingToken& token : difference.tokens)
    (token.kept_by == KeptBy::kOnlyA ? lost_by_b : lost_by_a) += token.afterwards.value_or(0);
  return fmt::format(
      "Attention of the full cache still to come: {:.4g} went with what {} lost, {:.4g} with what {} lost",
      lost_by_a, name_of(state, state.selection.run), lost_by_b, name_of(state, state.other_run()));
}

}  // namespace

void DifferenceView::take(const session::MadeDifference& made) {
  if (made.difference == shown_) return;
  shown_ = made.difference;
  sort(column_, descending_);
}

void DifferenceView::sort(int column, bool descending) {
  column_ = column;
  descending_ = descending;
  rows_.clear();
  if (!shown_) return;
  for (const DifferingToken& token : shown_->tokens)
    if (which_ == 0 || (token.kept_by == KeptBy::kOnlyA) == (which_ == 1)) rows_.push_back(&token);
  const auto key = [&](const DifferingToken* token) -> double {
    switch (column) {
      case kKeptBy:
        return token->kept_by == KeptBy::kOnlyA ? 0 : 1;
      case kBlock:
        return token->evicted_at.value_or(-1);
      case kReceived:
        return token->received.value_or(0);
      case kAfterwards:
        return token->afterwards.value_or(0);
      default:
        return token->position;
    }
  };
  std::ranges::stable_sort(rows_, [&](const DifferingToken* a, const DifferingToken* b) {
    return descending ? key(a) > key(b) : key(a) < key(b);
  });
}

void DifferenceView::draw_row(PanelContext& context, const DifferingToken& token) {
  const auto& state = context.state();
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  const std::string position = format_count(token.position);
  ImGui::PushID(token.position);
  if (ImGui::Selectable(position.c_str(), state.token() == token.position,
                        ImGuiSelectableFlags_SpanAllColumns | ImGuiSelectableFlags_AllowOverlap))
    context.session.lock(token.position);
  ImGui::PopID();
  if (ImGui::IsItemHovered()) context.hovered = token.position;
  ImGui::TableNextColumn();
  push_font(context.fonts.mono);
  ImGui::TextUnformatted(
      figures::token_label(measures::token_bytes(*state.info, state.selection.run, token.position)).c_str());
  ImGui::PopFont();
  ImGui::TableNextColumn();
  const bool first = token.kept_by == KeptBy::kOnlyA;
  ImGui::TextUnformatted(name_of(state, first ? state.selection.run : state.other_run()).c_str());
  const auto number = [](const auto& value) {
    return value ? fmt::format("{:.4g}", double(*value)) : std::string("–");
  };
  for (const std::string& text :
       {number(token.evicted_at), number(token.received), number(token.afterwards)}) {
    ImGui::TableNextColumn();
    ImGui::TextUnformatted(text.c_str());
  }
}

void DifferenceView::draw_table(PanelContext& context) {
  constexpr ImGuiTableFlags kFlags = ImGuiTableFlags_Sortable | ImGuiTableFlags_ScrollY |
                                     ImGuiTableFlags_RowBg | ImGuiTableFlags_Resizable |
                                     ImGuiTableFlags_BordersInnerV | ImGuiTableFlags_SizingStretchProp;
  if (!ImGui::BeginTable("tokens", 6, kFlags)) return;
  constexpr auto kFirstDescending = ImGuiTableColumnFlags_PreferSortDescending;
  ImGui::TableSetupScrollFreeze(0, 1);
  ImGui::TableSetupColumn("position", 0, 0.8F, kPosition);
  ImGui::TableSetupColumn("token", ImGuiTableColumnFlags_NoSort, 1.6F, kToken);
  ImGui::TableSetupColumn("kept by", 0, 1.2F, kKeptBy);
  ImGui::TableSetupColumn("evicted at", 0, 0.9F, kBlock);
  ImGui::TableSetupColumn("received", kFirstDescending, 1, kReceived);
  ImGui::TableSetupColumn("afterwards", kFirstDescending | ImGuiTableColumnFlags_DefaultSort, 1, kAfterwards);
  ImGui::TableHeadersRow();
  if (ImGuiTableSortSpecs* specs = ImGui::TableGetSortSpecs();
      specs != nullptr && specs->SpecsDirty && specs->SpecsCount > 0) {
    sort(static_cast<int>(specs->Specs[0].ColumnUserID),
         specs->Specs[0].SortDirection == ImGuiSortDirection_Descending);
    specs->SpecsDirty = false;
  }
  const ImVec2 corner = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
  context.widgets["difference"] = {corner.x, corner.y, size.x, size.y};
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(rows_.size()));
  while (clipper.Step())
    for (int row = clipper.DisplayStart; row < clipper.DisplayEnd; ++row) draw_row(context, *rows_[row]);
  ImGui::EndTable();
}

void DifferenceView::draw(PanelContext& context, const Rect& /*rect*/) {
  const auto& state = context.state();
  if (state.other_run() < 0)
    return dim_text(context, "This recording has one run: there is none to compare it with.");
  draw_other_run(context);
  const session::MadeDifference& made = state.difference;
  const bool current = made.key.head == state.head() && made.key.other == state.other_run();
  if (!current || !made.difference) {
    dim_text(context, current && !made.error.empty() ? made.error : "reading …");
    return;
  }
  take(made);
  ImGui::SameLine();
  dim_text(context, fmt::format("layer {}, KV head {}, after block {}", made.key.head.layer,
                                made.key.head.kv_head, made.key.block));
  draw_shares(context, *made.difference);
  ImGui::PushTextWrapPos(0);
  dim_text(context, lost_text(state));
  ImGui::PopTextWrapPos();
  const std::string a = name_of(state, state.selection.run), b = name_of(state, state.other_run());
  const int before = which_;
  radio_button(context, "all", &which_, 0);
  ImGui::SameLine();
  radio_button(context, fmt::format("kept by {}", a), &which_, 1);
  note_widget(context, "kept_by_a");
  ImGui::SameLine();
  radio_button(context, fmt::format("kept by {}", b), &which_, 2);
  note_widget(context, "kept_by_b");
  if (which_ != before) sort(column_, descending_);
  draw_table(context);
}

nlohmann::ordered_json DifferenceView::describe() const {
  nlohmann::ordered_json json{{"n_rows", rows_.size()}};
  if (shown_)
    json["both"] = shown_->n_both, json["only_a"] = shown_->n_only_a, json["only_b"] = shown_->n_only_b;
  if (!rows_.empty()) json["first"] = rows_.front()->position;
  return json;
}

}  // namespace keyscope::window
