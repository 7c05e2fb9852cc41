#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/display/widgets.hpp"
#include "app/panels/dialogs.hpp"
#include "base/text.hpp"

namespace keyscope::window {

namespace fs = std::filesystem;

using session::FolderEntry;

void FileList::list(const fs::path& folder) {
  listed_ = session::list_folder(folder);
  typed_from_ = listed_.folder;
  typed_.clear();
  cursor_ = -1;
  refocus_ = true;
}

// Goes into a folder, or gives a file.
std::optional<std::string> FileList::enter(const FolderEntry& entry) {
  const fs::path path = (listed_.folder / entry.name).lexically_normal();
  if (!entry.is_folder()) return path.string();
  list(path);
  return std::nullopt;
}

// The entry that was clicked.
std::optional<FolderEntry> FileList::draw_entries(PanelContext& context,
                                                  const std::vector<FolderEntry>& entries) const {
  ImGui::BeginChild("files", {0, context.px(260)}, ImGuiChildFlags_Borders);
  std::optional<FolderEntry> clicked;
  ImGuiListClipper clipper;  // a folder may hold thousands: those in sight are drawn
  clipper.Begin(static_cast<int>(entries.size()));
  while (clipper.Step())
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
      const FolderEntry& entry = entries[i];
      const float left = ImGui::GetCursorPosX(), room = ImGui::GetContentRegionAvail().x;
      if (ImGui::Selectable(entry.name.c_str(), i == cursor_)) clicked = entry;
      note_widget(context, fmt::format("file_{}", i));
      if (entry.is_folder()) continue;
      const std::string about = fmt::format("{}   {}", bytes_text(entry.bytes), entry.changed);
      ImGui::SameLine(left + room - text_size(context.fonts.regular, about).x);
      dim_text(context, about);
    }
  if (!listed_.error.empty()) ImGui::TextWrapped("%s", listed_.error.c_str());
  if (entries.empty() && listed_.error.empty())
    dim_text(context, typed_.empty() ? "no recordings or figures (*.h5) here" : "no such name here");
  ImGui::EndChild();
  return clicked;
}

// What is under the cursor, else what is named in full, else what alone has this part in its name.
std::optional<std::string> FileList::choose(const std::vector<FolderEntry>& entries,
                                            const std::string& part) {
  std::error_code error;
  const fs::path exact = listed_.folder / part;
  refocus_ = true;
  if (cursor_ >= 0) return enter(entries[cursor_]);
  if (!part.empty() && fs::is_regular_file(exact, error)) return exact.string();
  if (!part.empty() && entries.size() == 1) return enter(entries.front());
  if (fs::is_directory(exact, error)) list(exact);
  return std::nullopt;
}

std::optional<std::string> FileList::draw(PanelContext& context) {
  dim_text(context,
           fit_text(context.fonts.regular, listed_.folder.string(), ImGui::GetContentRegionAvail().x));
  if (std::exchange(refocus_, false)) ImGui::SetKeyboardFocusHere();
  ImGui::SetNextItemWidth(-1);
  const bool entered = text_field(context, "##path", "a part of a name, or a path", &typed_,
                                  ImGuiInputTextFlags_EnterReturnsTrue);
  const session::TypedPath typed = session::read_typed_path(typed_from_, typed_);
  if (typed.folder != listed_.folder) listed_ = session::list_folder(typed.folder);
  const auto entries = session::entries_with(listed_, typed.part);
  const int n = static_cast<int>(entries.size());
  if (ImGui::IsKeyPressed(ImGuiKey_DownArrow)) cursor_ = std::min(cursor_ + 1, n - 1);
  if (ImGui::IsKeyPressed(ImGuiKey_UpArrow)) cursor_ = std::max(cursor_ - 1, 0);
  cursor_ = std::min(cursor_, n - 1);
  const auto clicked = draw_entries(context, entries);
  const bool go = ImGui::Button("Open", {context.px(110), 0}) || entered;
  if (clicked) return enter(*clicked);
  return go ? choose(entries, typed.part) : std::nullopt;
}

}  // namespace keyscope::window
