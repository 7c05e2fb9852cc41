#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/panels/actions.hpp"
#include "app/panels/dialog.hpp"
#include "app/panels/live_form.hpp"
#include "app/panels/palette.hpp"
#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// The window's dialogs; at most one is open.
class Dialogs {
 public:
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
  void draw_open(PanelContext& context);
  void draw_export(PanelContext& context);
  void propose_name(const PanelContext& context);
  void draw_help(PanelContext& context);
  void draw_palette(PanelContext& context, ActionTarget& target);
  void choose(const std::optional<PaletteEntry>& entry, ActionTarget& target);

  Dialog open_ = Dialog::kNone;
  bool just_opened_ = false;
  std::string open_path_;
  std::string export_path_ = "keyspace.svg";
  bool export_replace_ = false;
  std::string listed_folder_;
  std::vector<std::string> listed_;
  LiveForm live_form_;
  Palette palette_;
};

}  // namespace keyscope::window
