#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/panels/live_form.hpp"
#include "app/panels/panel_context.hpp"

namespace keyscope::window {

enum class Dialog { kNone, kOpen, kExport, kLive, kHelp };

// The window's dialogs; at most one is open.
class Dialogs {
 public:
  void open(Dialog dialog);
  void close() { open_ = Dialog::kNone; }
  Dialog current() const { return open_; }
  LiveForm& live_form() { return live_form_; }

  void draw(PanelContext& context);

 private:
  void draw_open(PanelContext& context);
  void draw_export(PanelContext& context);
  void propose_name(const PanelContext& context);
  void draw_help(PanelContext& context);

  Dialog open_ = Dialog::kNone;
  bool just_opened_ = false;
  std::string open_path_;
  std::string export_path_ = "keyspace.svg";
  bool export_replace_ = false;
  std::string listed_folder_;
  std::vector<std::string> listed_;
  LiveForm live_form_;
};

}  // namespace keyscope::window
