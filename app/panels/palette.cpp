#include "app/panels/palette.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/display/widgets.hpp"
#include "app/session/selection.hpp"

namespace keyscope::window {

namespace {

constexpr float kCommandHeight = 26;
constexpr std::ptrdiff_t kPage = 10;  // rows in sight, and what Page Up and Down move by

struct KeyMove {
  int key;
  std::ptrdiff_t by;
};
constexpr std::array kMoves{KeyMove{ImGuiKey_UpArrow, -1}, KeyMove{ImGuiKey_DownArrow, 1},
                            KeyMove{ImGuiKey_PageUp, -kPage}, KeyMove{ImGuiKey_PageDown, kPage}};

bool is_enter(const KeyPress& press) {
  return press.key == ImGuiKey_Enter || press.key == ImGuiKey_KeypadEnter;
}

}  // namespace

void Palette::open(const session::Session& session, const std::vector<session::RecentFile>& recent) {
  typed_.clear();
  searched_.clear();
  list_.start(palette_entries(session, recent));
}

bool Palette::takes(const KeyPress& press) const {
  return is_enter(press) || std::ranges::find(kMoves, press.key, &KeyMove::key) != kMoves.end();
}

std::optional<PaletteEntry> Palette::take_key(const KeyPress& press) {
  if (is_enter(press)) return chosen();
  const auto move = std::ranges::find(kMoves, press.key, &KeyMove::key);
  if (move == kMoves.end()) return std::nullopt;
  list_.move(move->by);
  show_cursor_ = true;
  return std::nullopt;
}

std::optional<PaletteEntry> Palette::chosen() const {
  const PaletteEntry* entry = list_.chosen();
  return entry != nullptr ? std::optional(*entry) : std::nullopt;
}

void Palette::draw_field(PanelContext& context) {
  // Enter and clicks beside it take the keyboard from the field; nothing else here wants it.
  if (!ImGui::IsAnyItemActive()) ImGui::SetKeyboardFocusHere();
  ImGui::SetNextItemWidth(-1);
  text_field(context, "##wanted", "What to do: layer 3, export, cosines …", &typed_);
  if (typed_ == searched_) return;
  searched_ = typed_;
  list_.search(typed_, typed_entries(context.session, typed_));
  show_cursor_ = true;
}

// One row at the cursor; true if it was clicked.
bool Palette::draw_row(PanelContext& context, std::size_t place) {
  const PaletteEntry& entry = list_.entry(place);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 size(ImGui::GetContentRegionAvail().x, context.px(kCommandHeight));
  ImGui::PushID(static_cast<int>(place));
  const bool clicked = ImGui::InvisibleButton("entry", size);
  ImGui::PopID();
  const bool moved = ImGui::GetIO().MouseDelta.x != 0 || ImGui::GetIO().MouseDelta.y != 0;
  if (ImGui::IsItemHovered() && moved) list_.point(place);

  ImDrawList& list = *ImGui::GetWindowDrawList();
  const bool here = place == list_.cursor();
  if (here) list.AddRectFilled(at, {at.x + size.x, at.y + size.y}, context.theme.selected, context.px(4));
  const bool refused = !entry.refusal.empty();
  const std::string& right = refused ? entry.refusal : entry.hint;
  const Font& small = context.fonts.small;
  const float most = 0.6F * size.x;
  const std::string hint = fit_text(small, right, most);
  const float hint_x = at.x + size.x - context.px(10) - text_size(small, hint).x;
  const float name_x = at.x + context.px(10);
  const Font& font = context.fonts.regular;
  draw_text(list, font, {name_x, at.y + 0.5F * (size.y - font.size)},
            refused ? with_alpha(context.theme.dim, 0.7F) : context.theme.text,
            fit_text(font, entry.name, hint_x - name_x - context.px(12)));
  draw_text(list, small, {hint_x, at.y + 0.5F * (size.y - small.size)},
            refused ? with_alpha(context.theme.dim, 0.7F) : context.theme.dim, hint);
  return clicked;
}

std::optional<PaletteEntry> Palette::draw(PanelContext& context) {
  draw_field(context);
  std::optional<PaletteEntry> clicked;
  const float row = context.px(kCommandHeight);
  const float most = ImGui::GetIO().DisplaySize.y - ImGui::GetCursorScreenPos().y - context.px(56);
  const auto rows =
      static_cast<float>(std::clamp<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(list_.size()), 1, kPage));
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, 0});
  ImGui::BeginChild("entries", {0, std::min(rows * row, std::max(row, most))});
  if (show_cursor_) {
    const float top = static_cast<float>(list_.cursor()) * row;
    const float seen = ImGui::GetWindowHeight();
    if (top < ImGui::GetScrollY()) ImGui::SetScrollY(top);
    if (top + row > ImGui::GetScrollY() + seen) ImGui::SetScrollY(top + row - seen);
    show_cursor_ = false;
  }
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(list_.size()), row);
  while (clipper.Step())
    for (int place = clipper.DisplayStart; place < clipper.DisplayEnd; ++place)
      if (draw_row(context, place)) {
        list_.point(place);
        clicked = chosen();
      }
  ImGui::EndChild();
  ImGui::PopStyleVar();
  ImGui::Dummy({0, 0});
  const std::size_t n = list_.size();
  const std::string count =
      n < list_.n_offered() ? fmt::format("{} of {}", n, list_.n_offered()) : fmt::format("all {}", n);
  dim_text(context, n == 0 ? "nothing fits   Esc: close"
                           : fmt::format("showing {}   ↑ ↓: choose   Enter: do   Esc: close", count));
  return clicked;
}

namespace {

using session::Session;

void add_actions(const Session& session, std::vector<PaletteEntry>& entries) {
  for (const Action& action : actions()) {
    if (action.id == "palette" || action.id == "run" || action.id == "beside")
      continue;  // this one; and runs are offered by name
    entries.push_back({std::string(action.name), shortcut_text(action.shortcut),
                       std::string(action.refusal(session)),
                       [&action](ActionTarget& target) { perform(action, target); }});
  }
}

void add_views(const Session& session, std::vector<PaletteEntry>& entries) {
  const auto& state = session.state();
  for (const auto& view : session::view_choices()) {
    const bool recorded = session::can_show(*state.info, view.name);
    std::string refusal = state.view == view.name ? "shown now" : "";
    if (!recorded) refusal = "was not recorded";
    entries.push_back({"View: " + view.label, "", std::move(refusal),
                       [name = view.name](ActionTarget& target) { target.session().choose_view(name); }});
  }
}

void add_measures(const Session& session, std::vector<PaletteEntry>& entries) {
  const auto measures = session::measure_choices();
  for (std::size_t i = 0; i < measures.size(); ++i)
    entries.push_back({fmt::format("Measure: {}", measures[i].label), "",
                       i == session.state().measure ? "shown now" : "",
                       [i](ActionTarget& target) { target.session().choose_measure(i); }});
}

void add_runs(const Session& session, std::vector<PaletteEntry>& entries) {
  const auto& state = session.state();
  const Shortcut& keys = action("run").shortcut;
  for (int run = 0; run < static_cast<int>(state.info->runs.size()); ++run) {
    const std::string key = run < keys.n_keys ? shortcut_text({keys.key + run, keys.modifiers}) : "";
    entries.push_back({fmt::format("Policy: {}", state.info->runs[run].plan.name), key,
                       run == state.selection.run ? "shown now" : "",
                       [run](ActionTarget& target) { target.session().select_run(run); }});
  }
}

void add_beside(const Session& session, std::vector<PaletteEntry>& entries) {
  const auto& state = session.state();
  const Shortcut& keys = action("beside").shortcut;
  for (std::size_t i = 0; i < state.choices.size(); ++i) {
    const session::RunChoice& choice = state.choices[i];
    const int nth = static_cast<int>(i);
    if (choice.id == session::RunId{0, state.selection.run}) continue;
    const bool shown = std::ranges::find(state.beside, choice.id) != state.beside.end();
    entries.push_back({fmt::format("{}: {}{}", shown ? "No longer beside" : "Beside", choice.name,
                                   choice.id.source > 0 ? ", earlier run" : ""),
                       nth < keys.n_keys ? shortcut_text({keys.key + nth, keys.modifiers}) : "",
                       shown ? "" : choice.refusal,
                       [id = choice.id](ActionTarget& target) { target.session().toggle_beside(id); }});
  }
}

void add_figures(const Session& session, std::vector<PaletteEntry>& entries) {
  const auto& file = *session.state().figure_file;
  for (std::size_t i = 0; i < file.figures.size(); ++i)
    entries.push_back({fmt::format("Figure: {}", file.figures[i].title), file.figures[i].name,
                       i == session.state().figure ? "shown now" : "", [i](ActionTarget& target) {
                         target.session().select_figure(static_cast<std::int64_t>(i));
                       }});
}

void add_documents(const Session& session, std::vector<PaletteEntry>& entries) {
  const auto& state = session.state();
  for (std::size_t i = 0; i < state.documents.size(); ++i)
    entries.push_back({"Show " + std::filesystem::path(state.documents[i]).filename().string(), "",
                       i == state.document ? "shown now" : "",
                       [path = state.documents[i]](ActionTarget& target) { target.session().open(path); }});
}

void add_earlier(const Session& session, std::vector<PaletteEntry>& entries) {
  const auto& earlier = session.state().earlier;
  for (std::size_t i = 0; i < earlier.size(); ++i)
    entries.push_back({"Earlier run: " + earlier[i].name, "in memory", "",
                       [i](ActionTarget& target) { target.session().show_earlier(i); }});
}

void add_recent(const Session& session, const std::vector<session::RecentFile>& recent,
                std::vector<PaletteEntry>& entries) {
  for (const session::RecentFile& file : recent) {
    const std::filesystem::path path(file.path);
    std::string refusal = file.missing ? "is gone: " + path.parent_path().string() : "";
    if (file.path == session.state().path || file.path == session.state().figure_path) refusal = "open now";
    entries.push_back({"Open " + path.filename().string(), path.parent_path().string(), std::move(refusal),
                       [path](ActionTarget& target) { target.session().open(path); }});
  }
}

}  // namespace

std::vector<PaletteEntry> palette_entries(const Session& session,
                                          const std::vector<session::RecentFile>& recent) {
  std::vector<PaletteEntry> entries;
  add_actions(session, entries);
  if (session.state().loaded()) {
    add_views(session, entries);
    add_measures(session, entries);
    add_runs(session, entries);
    add_beside(session, entries);
  } else if (session.state().figure_file) {
    add_figures(session, entries);
  }
  add_documents(session, entries);
  add_earlier(session, entries);
  add_recent(session, recent, entries);
  return entries;
}

std::vector<PaletteEntry> typed_entries(const Session& session, const std::string& typed) {
  const auto request = session::typed_selection(typed);
  if (!request) return {};
  const auto& state = session.state();
  return {{session::describe_request(*request), "",
           state.loaded() ? session::selection_refusal(*state.info, state.selection, *request)
                          : "no recording is open",
           [request](ActionTarget& target) { target.session().select_typed(*request); }}};
}

namespace {

constexpr int kRefused = 8;  // what an entry's score loses where it cannot be done now: a word's beginning

}  // namespace

void PaletteList::start(std::vector<PaletteEntry> offered) {
  offered_ = std::move(offered);
  search({});
}

void PaletteList::search(const std::string& wanted, std::vector<PaletteEntry> direct) {
  direct_ = std::move(direct);
  std::vector<std::pair<int, const PaletteEntry*>> fitting;
  for (const PaletteEntry& entry : offered_)
    if (const auto score = fuzzy_score(wanted, entry.name))
      fitting.emplace_back(*score - (entry.refusal.empty() ? 0 : kRefused), &entry);
  // Without a word all fit, and the order in which they are offered says more than their lengths.
  if (wanted.find_first_not_of(' ') == std::string::npos)
    std::ranges::stable_partition(fitting, [](const auto& scored) { return scored.second->refusal.empty(); });
  else
    std::ranges::stable_sort(fitting, std::ranges::greater(), &std::pair<int, const PaletteEntry*>::first);
  shown_.clear();
  for (const PaletteEntry& entry : direct_) shown_.push_back(&entry);
  for (const auto& [score, entry] : fitting) shown_.push_back(entry);
  cursor_ = 0;
}

void PaletteList::move(std::ptrdiff_t by) {
  if (shown_.empty()) return;
  const auto n = std::ssize(shown_);
  const auto to = static_cast<std::ptrdiff_t>(cursor_) + by;
  const bool round = by == 1 || by == -1;
  cursor_ = round ? (to + n) % n : std::clamp<std::ptrdiff_t>(to, 0, n - 1);
}

void PaletteList::point(std::size_t place) {
  if (place < shown_.size()) cursor_ = place;
}

const PaletteEntry* PaletteList::chosen() const {
  if (cursor_ >= shown_.size() || !shown_[cursor_]->refusal.empty()) return nullptr;
  return shown_[cursor_];
}

}  // namespace keyscope::window
