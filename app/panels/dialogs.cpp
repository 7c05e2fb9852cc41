#include "app/panels/dialogs.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/display/widgets.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/nexus.hpp"
#include "app/panels/actions.hpp"
#include "app/panels/panel_context.hpp"
#include "app/session/export_view.hpp"
#include "app/session/live_request.hpp"
#include "base/text.hpp"

namespace keyscope::window {

namespace {

// The list of all keys and mouse gestures, in two columns where the window has the room.
class KeyList {
 public:
  explicit KeyList(const PanelContext& context);

  // Of a dialog that it fits into, in pixels.
  float width() const { return static_cast<float>(n_columns_) * column_ + 2 * margin_; }
  void draw(const PanelContext& context) const;

 private:
  struct Row {
    std::string keys;
    std::string_view what;
  };

  void draw_row(const PanelContext& context, const Row& row, float x) const;

  std::vector<Row> rows_;
  float keys_width_ = 0;  // of the widest keys, and of a whole column, with what keeps it from the next
  float column_ = 0;
  float margin_ = 0;
  int n_columns_ = 1;
};

constexpr std::array<std::pair<const char*, const char*>, 10> kMouse{{
    {"Esc", "release and unselect, close what is open"},
    {"drag", "pan; turn the key space in 3D"},
    {"middle-drag, Shift + drag", "pan, in 3D as well"},
    {"wheel", "zoom at the cursor"},
    {"right-drag", "select tokens in a box; elsewhere zoom to it"},
    {"Shift + right-drag", "select tokens inside an outline"},
    {"Ctrl + right-drag", "zoom to a box"},
    {"double-click", "fit the view"},
    {"click", "hold a token; on the legend: hide a kind of point"},
    {"right-click", "menu of the plot"},
}};

KeyList::KeyList(const PanelContext& context) : margin_(context.px(20)) {
  for (const Action& action : actions()) {
    if (action.shortcut.key == 0) continue;  // only by button or palette
    const std::string other = shortcut_text(action.other);
    const bool is_short = !other.empty() && other.size() <= 6;
    rows_.push_back({shortcut_text(action.shortcut) + (is_short ? ", " + other : ""), action.name});
  }
  for (const auto& [keys, what] : kMouse) rows_.push_back({keys, what});
  float what_width = 0;
  for (const Row& row : rows_) {
    keys_width_ = std::max(keys_width_, text_size(context.fonts.bold, row.keys).x);
    what_width = std::max(what_width, text_size(context.fonts.regular, std::string(row.what)).x);
  }
  keys_width_ += context.px(14);
  column_ = keys_width_ + what_width + context.px(24);
  n_columns_ = 2 * column_ + 2 * margin_ <= ImGui::GetIO().DisplaySize.x - context.px(40) ? 2 : 1;
}

void KeyList::draw_row(const PanelContext& context, const Row& row, float x) const {
  ImGui::SetCursorPosX(x);
  push_font(context.fonts.bold);
  ImGui::TextUnformatted(row.keys.c_str());
  ImGui::PopFont();
  ImGui::SameLine();
  ImGui::SetCursorPosX(x + keys_width_);
  ImGui::TextUnformatted(row.what.data(), row.what.data() + row.what.size());
}

void KeyList::draw(const PanelContext& context) const {
  const auto n = rows_.size();
  const std::size_t n_lines = n_columns_ == 2 ? (n + 1) / 2 : n;
  const float left = ImGui::GetCursorPosX();
  for (std::size_t line = 0; line < n_lines; ++line) {
    draw_row(context, rows_[line], left);
    if (n_lines + line >= n) continue;
    ImGui::SameLine();
    draw_row(context, rows_[n_lines + line], left + column_);
  }
}

constexpr float kPreviewHeight = 300;

namespace fs = std::filesystem;

//   top: distance from the window's upper edge; negative: in the middle
void begin_popup(const PanelContext& context, float width, float top) {
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({0.5F * display.x, top < 0 ? 0.5F * display.y : top}, ImGuiCond_Always,
                          {0.5F, top < 0 ? 0.5F : 0.0F});
  const float shown_width = std::min(context.px(width), display.x - context.px(40));
  ImGui::SetNextWindowSize({shown_width, 0});
  ImGui::SetNextWindowSizeConstraints({shown_width, 0}, {shown_width, display.y - context.px(16)});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {context.px(20), context.px(16)});
  ImGui::OpenPopup("dialog");
  ImGui::BeginPopupModal("dialog", nullptr,
                         ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize | ImGuiWindowFlags_NoMove |
                             ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_AlwaysAutoResize);
}

void begin_dialog(const PanelContext& context, const char* title, float width) {
  begin_popup(context, width, -1);
  push_font(context.fonts.title);
  ImGui::TextUnformatted(title);
  ImGui::PopFont();
  ImGui::Dummy({0, context.px(2)});
}

void end_dialog() {
  ImGui::EndPopup();
  ImGui::PopStyleVar();
}

}  // namespace

void Dialogs::open(Dialog dialog) {
  open_ = dialog;
  just_opened_ = refocus_ = true;
  refusal_.clear();
}

bool Dialogs::take_key(const KeyPress& press, ActionTarget& target) {
  if (open_ != Dialog::kPalette || !palette_.takes(press)) return false;
  choose(palette_.take_key(press), target);
  return true;
}

void Dialogs::choose(const std::optional<PaletteEntry>& entry, ActionTarget& target) {
  if (!entry) return;
  close();
  entry->act(target);
}

void Dialogs::draw(PanelContext& context, ActionTarget& target) {
  take_choice(context);
  const Dialog before = open_;
  if (open_ == Dialog::kOpen) draw_open(context);
  if (open_ == Dialog::kExport) draw_export(context);
  if (open_ == Dialog::kSave) draw_save(context);
  if (open_ == Dialog::kHelp) draw_help(context);
  if (open_ == Dialog::kPalette) draw_palette(context, target);
  if (open_ == Dialog::kLive && before == Dialog::kLive) {
    begin_dialog(context, "Run a model", 640);
    if (auto request = live_form_.draw(context)) {
      live_form_.fill(*request);
      live_form_.started();
      const session::LiveRequest& asked = *request;
      context.session.start_live(session::make_live_capture(asked), {}, asked.out, asked.paused);
      close();
    }
    ImGui::SameLine();
    if (ImGui::Button("Close", {context.px(90), 0})) close();
    end_dialog();
  }
  just_opened_ = just_opened_ && before != open_;
}

void Dialogs::open_file(const std::string& path, PanelContext& context) {
  context.session.open(path);
  close();
}

// The desktop's dialog; ours where there is none.
void Dialogs::choose_file(PanelContext& context) {
  const auto& state = context.state();
  std::error_code error;
  const fs::path shown = state.path.empty() ? fs::path() : fs::path(state.path).parent_path();
  if (!files_.folder().empty())
    files_.list(files_.folder());  // files come and go
  else
    files_.list(shown.empty() ? fs::current_path(error) : shown);
  if (desktop_.ask({session::DesktopDialog::Kind::kOpen,
                    "Open a recording or figures",
                    files_.folder() / "",
                    {"*.h5", "*.hdf5", "*.nxs", "*.h5.part"}}))
    return wait_for(Wanted::kOpen);
}

// The program's own dialogs stay closed while the desktop's is open.
void Dialogs::wait_for(Wanted wanted) {
  wanted_ = wanted;
  if (wanted == Wanted::kOpen) close();
}

void Dialogs::take_choice(PanelContext& context) {
  auto chosen = desktop_.take();
  if (!chosen) return;
  switch (wanted_) {
    case Wanted::kOpen:
      files_.list(fs::path(*chosen).parent_path());
      return open_file(*chosen, context);
    case Wanted::kExport:
      export_path_ = std::move(*chosen);
      export_choice_.page.replace = true;  // the desktop's dialog has asked
      break;
    case Wanted::kSave:
      save_path_ = std::move(*chosen);
      save_replace_ = true;
      break;
  }
}

// A path, and where there is a desktop a button for its dialog.
//   replace: given for one file, and not for another that is typed after it
bool Dialogs::draw_path(PanelContext& context, std::string& path, bool& replace, const char* title,
                        Wanted wanted) {
  const bool browse = !session::DesktopDialog::program().empty();
  const float button = context.px(90);
  if (std::exchange(refocus_, false)) ImGui::SetKeyboardFocusHere();
  ImGui::SetNextItemWidth(browse ? -button - ImGui::GetStyle().ItemSpacing.x : -1);
  const bool entered = text_field(context, "##path", "", &path, ImGuiInputTextFlags_EnterReturnsTrue);
  if (ImGui::IsItemEdited()) {
    replace = false;
    refusal_.clear();
  }
  if (!browse) return entered;
  ImGui::SameLine();
  ImGui::BeginDisabled(desktop_.is_open());
  if (ImGui::Button("Browse", {button, 0}) &&
      desktop_.ask({session::DesktopDialog::Kind::kSave, title, fs::absolute(path), {}}))
    wait_for(wanted);
  note_widget(context, "browse");
  ImGui::EndDisabled();
  return entered;
}

void Dialogs::draw_refusal(const PanelContext& context) {
  if (refusal_.empty()) return;
  ImGui::PushStyleColor(ImGuiCol_Text, context.theme.error);
  ImGui::TextWrapped("%s", refusal_.c_str());
  ImGui::PopStyleColor();
}

void Dialogs::draw_open(PanelContext& context) {
  if (std::exchange(just_opened_, false)) {
    choose_file(context);
    if (open_ != Dialog::kOpen) return;
  }
  begin_dialog(context, "Open a recording", 640);
  const auto chosen = files_.draw(context);
  ImGui::SameLine();
  if (ImGui::Button("Close", {context.px(90), 0})) close();
  if (chosen) open_file(*chosen, context);
  end_dialog();
}

// After the view, in the folder and with the extension of the last one.
void Dialogs::propose_name(const PanelContext& context) {
  const std::string& view = context.state().view;
  const std::string extension = fs::path(export_path_).extension().string();
  const bool text = !session::is_figure_view(view) && view != session::kKeyspaceView;
  const bool tokens = extension == ".csv" || extension == ".json";
  const bool paged = view == session::kKeyspaceView || view == session::kTextView;
  const bool keeps = extension == ".html" ? paged : text == tokens;
  export_path_ = (fs::path(export_path_).parent_path() /
                  ((view == session::kTextView ? "tokens" : view) + (keeps  ? extension
                                                                     : text ? ".csv"
                                                                            : ".svg")))
                     .string();
}

// Where the picture goes, how wide it is there, how fine, and on which ground.
void Dialogs::draw_page_choices(PanelContext& context) {
  auto& page = export_choice_.page;
  const auto& state = context.state();
  if (state.comparing(state.view)) {
    tick_box(context, "All runs side by side", &export_choice_.all_runs);
    ImGui::SameLine(0, context.px(18));
  }
  tick_box(context, "Zoomed and hidden as on screen", &export_choice_.as_seen);
  note_widget(context, "export_as_seen");
  ImGui::AlignTextToFramePadding();
  auto width = static_cast<float>(page.width_inches), dpi = static_cast<float>(page.dpi);
  ImGui::SetNextItemWidth(context.px(150));
  if (ImGui::SliderFloat("##width", &width, static_cast<float>(figures::kLeastInches), 14, "%.1f in wide"))
    page.width_inches = std::clamp(std::round(static_cast<double>(width) * 10) / 10, figures::kLeastInches,
                                   figures::kMostInches);
  note_widget(context, "export_width");
  if (ImGui::IsItemHovered())
    ImGui::SetTooltip("3.4 in: a column of a paper; 7 in: both. Ctrl + click: type");
  ImGui::SameLine();
  ImGui::SetNextItemWidth(context.px(120));
  if (ImGui::SliderFloat("##dpi", &dpi, 72, 600, "%.0f dpi"))
    page.dpi = std::clamp(std::round(dpi), 36.0F, 1200.0F);
  note_widget(context, "export_dpi");
  ImGui::SameLine();
  ImGui::SetNextItemWidth(context.px(150));
  ImGui::Combo("##ground", &export_theme_, "As the window\0Light\0Dark\0");
  note_widget(context, "export_theme");
  page.dark = export_theme_ == 0 ? !context.theme.light : export_theme_ == 2;
}

// The very page, smaller.
void Dialogs::draw_preview(PanelContext& context) {
  const float width = ImGui::GetContentRegionAvail().x, height = context.px(kPreviewHeight);
  if (preview_asked_ < 0 || previewed_ != export_choice_) {
    preview_asked_ =
        context.session.want_preview(export_choice_, static_cast<int>(width), static_cast<int>(height));
    previewed_ = export_choice_;
  }
  const auto& made = context.state().preview;
  const bool current = made && made->asked == preview_asked_;
  if (current && preview_shown_ != preview_asked_) {
    preview_shown_ = preview_asked_;
    preview_width_ = made->image.width;
    preview_height_ = made->image.height;
    if (made->error.empty()) put_image(preview_, made->image);
  }
  ImGui::BeginChild("preview", {0, height + context.px(2)});
  if (current && !made->error.empty()) {
    ImGui::TextWrapped("%s", made->error.c_str());
  } else if (preview_shown_ >= 0 && preview_width_ > 0) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const auto shown_width = static_cast<float>(preview_width_);
    ImGui::SetCursorScreenPos({std::round(at.x + std::max(0.0F, 0.5F * (width - shown_width))), at.y});
    ImGui::ImageWithBg(texture_id(preview_.get()), {shown_width, static_cast<float>(preview_height_)}, {0, 0},
                       {1, 1}, {0, 0, 0, 0}, current ? ImVec4(1, 1, 1, 1) : ImVec4(1, 1, 1, 0.5F));
    ImGui::GetWindowDrawList()->AddRect(ImGui::GetItemRectMin(), ImGui::GetItemRectMax(),
                                        context.theme.border);
    note_widget(context, "export_preview");
  } else {
    dim_text(context, "drawing …");
  }
  ImGui::EndChild();
}

void Dialogs::draw_export(PanelContext& context) {
  begin_dialog(context, "Export this view", 640);
  const auto& state = context.state();
  if (just_opened_) preview_asked_ = preview_shown_ = -1;
  const bool picture = session::has_picture(state.view);
  if (picture) draw_preview(context);
  if (picture) draw_page_choices(context);
  if (just_opened_) propose_name(context);
  const bool entered =
      draw_path(context, export_path_, export_choice_.page.replace, "Export this view", Wanted::kExport);
  ImGui::PushTextWrapPos(0);
  std::string about = picture ? ".png, .svg, .pdf: this picture; .apng: it, block by block; .h5, .nxs: its "
                                "numbers, all of them; .csv, .json: "
                                "the head's tokens"
                              : ".csv, .json: the head's tokens";
  if (state.view == session::kDifferenceView) about = ".csv: this table; .json: the head's tokens";
  if (state.view == session::kKeyspaceView || state.view == session::kTextView)
    about = ".html: a page for a browser; " + about;
  if (state.tokens)
    about += fmt::format(" (the {} selected)", format_count(static_cast<long long>(state.tokens->size())));
  if (state.comparing(state.view)) about += fmt::format(" of {}", state.run().plan.name);
  dim_text(context, about);
  ImGui::PopTextWrapPos();
  draw_refusal(context);
  std::error_code error;
  const bool taken = std::filesystem::exists(export_path_, error);
  if (ImGui::Button("Export", {context.px(110), 0}) || entered) {
    refusal_ = session::export_refusal(state.view, export_path_, export_choice_.page.replace);
    if (refusal_.empty()) {
      context.session.export_view(export_path_, export_choice_);
      export_choice_.page.replace = false;  // asked for anew, file by file
      close();
    }
    refocus_ = true;
  }
  ImGui::SameLine();
  if (ImGui::Button("Close", {context.px(90), 0})) close();
  ImGui::SameLine(0, context.px(18));
  tick_box(context, "Replace", &export_choice_.page.replace);
  if (taken && !export_choice_.page.replace) {
    ImGui::SameLine();
    dim_text(context, "this file exists already");
  }
  just_opened_ = false;
  end_dialog();
}

void Dialogs::draw_save(PanelContext& context) {
  if (!context.state().loaded()) return close();  // a file of figures was dropped meanwhile
  begin_dialog(context, "Save this run as a recording", 600);
  const bool whole = context.state().info->complete;
  dim_text(context, whole ? "A recording (.h5), as a capture writes it; every command reads it"
                          : "A recording (.h5) up to the last block; every command reads it");
  if (just_opened_) save_replace_ = false;
  const bool entered =
      draw_path(context, save_path_, save_replace_, "Save this run as a recording", Wanted::kSave);
  draw_refusal(context);
  std::error_code error;
  const bool taken = fs::exists(save_path_, error);
  const bool go = ImGui::Button("Save", {context.px(110), 0}) || entered;
  ImGui::SameLine();
  if (ImGui::Button("Close", {context.px(90), 0})) close();
  if (taken && whole) {
    ImGui::SameLine(0, context.px(18));
    tick_box(context, "Replace the file that is there", &save_replace_);
  }
  if (go) {
    refusal_ = context.session.save_refusal(save_path_, save_replace_);
    refocus_ = true;
  }
  if (go && refusal_.empty()) {
    context.session.save_recording(save_path_, save_replace_);
    save_replace_ = false;
    close();
  }
  just_opened_ = false;
  end_dialog();
}

void Dialogs::draw_help(PanelContext& context) {
  const KeyList keys(context);
  begin_dialog(context, "Keys and mouse", keys.width() / context.scale);
  keys.draw(context);
  ImGui::Dummy({0, context.px(4)});
  if (ImGui::Button("Close", {context.px(90), 0})) close();
  end_dialog();
}

void Dialogs::draw_palette(PanelContext& context, ActionTarget& target) {
  if (just_opened_) palette_.open(context.session, target.recent_files());
  just_opened_ = false;
  begin_popup(context, 560, context.px(52));
  const auto clicked = palette_.draw(context);
  end_dialog();
  choose(clicked, target);
}

}  // namespace keyscope::window
