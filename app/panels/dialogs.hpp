#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/display/gl_objects.hpp"
#include "app/panels/actions.hpp"
#include "app/panels/live_form.hpp"
#include "app/panels/palette.hpp"
#include "app/panels/panel_context.hpp"
#include "app/session/file_choice.hpp"

namespace keyscope::window {

// A folder's list in which a file is chosen, by the mouse, by the arrow keys, or by typing a part of its name
// or a path: where the desktop has no dialog of its own.
class FileList {
 public:
  void list(const std::filesystem::path& folder);  // nothing is looked for in it yet
  const std::filesystem::path& folder() const { return listed_.folder; }

  // The folder's name, the field, the list, and the button that opens what is chosen; returns the file that
  // was.
  std::optional<std::string> draw(PanelContext& context);

 private:
  std::optional<std::string> enter(const session::FolderEntry& entry);
  std::optional<session::FolderEntry> draw_entries(PanelContext& context,
                                                   const std::vector<session::FolderEntry>& entries) const;
  std::optional<std::string> choose(const std::vector<session::FolderEntry>& entries,
                                    const std::string& part);

  session::FolderList listed_;
  // What is typed, from the folder that was listed when typing began: the field owns its text while it is
  // typed into, however many folders are gone through.
  std::filesystem::path typed_from_;
  std::string typed_;
  int cursor_ = -1;       // by the arrow keys; -1: nowhere
  bool refocus_ = false;  // the field is typed into in the next frame
};

// The window's dialogs; at most one is open.
class Dialogs {
 public:
  //   wake: called on another thread when the desktop's dialog was closed
  explicit Dialogs(std::function<void()> wake) : desktop_(std::move(wake)) {}

  void open(Dialog dialog);
  void close() { open_ = Dialog::kNone; }
  Dialog current() const { return open_; }
  LiveForm& live_form() { return live_form_; }
  const Palette& palette() const { return palette_; }

  // Keys of the dialog that is open; returns whether it was one.
  bool take_key(const KeyPress& press, ActionTarget& target);

  //   target: what is chosen in the palette acts on it
  void draw(PanelContext& context, ActionTarget& target);

 private:
  enum class Wanted { kOpen, kExport, kSave };  // the path that the desktop's dialog is asked for

  void draw_open(PanelContext& context);
  void open_file(const std::string& path, PanelContext& context);
  void choose_file(PanelContext& context);
  void wait_for(Wanted wanted);
  void take_choice(PanelContext& context);
  bool draw_path(PanelContext& context, std::string& path, bool& replace, const char* title, Wanted wanted);
  void draw_refusal(const PanelContext& context);
  void draw_export(PanelContext& context);
  void draw_save(PanelContext& context);
  void propose_name(const PanelContext& context);
  void draw_page_choices(PanelContext& context);
  void draw_preview(PanelContext& context);
  void draw_help(PanelContext& context);
  void draw_palette(PanelContext& context, ActionTarget& target);
  void choose(const std::optional<PaletteEntry>& entry, ActionTarget& target);

  Dialog open_ = Dialog::kNone;
  bool just_opened_ = false;
  bool refocus_ = false;  // the path is typed into in the next frame
  FileList files_;
  std::string export_path_ = "keyspace.svg";
  session::ExportChoice export_choice_;
  std::string save_path_ = "run.h5";
  bool save_replace_ = false;
  int export_theme_ = 0;  // as the window, light, dark
  std::string refusal_;   // why what was asked for cannot be written there
  // The picture that was asked for, what it was asked for, and the one that is there.
  int preview_asked_ = -1, preview_shown_ = -1;
  session::ExportChoice previewed_;
  GlTexture preview_;
  int preview_width_ = 0, preview_height_ = 0;
  LiveForm live_form_;
  Palette palette_;
  Wanted wanted_ = Wanted::kOpen;
  session::DesktopDialog desktop_;  // last: its thread ends before what it uses
};

}  // namespace keyscope::window
