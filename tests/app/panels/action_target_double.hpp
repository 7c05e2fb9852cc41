#pragma once

#include <string>
#include <vector>

#include "app/panels/actions.hpp"

namespace keyscope::window {

// A window that notes what it was asked for.
class NotingTarget : public ActionTarget {
 public:
  session::Session& session() override { return session_; }
  void open_dialog(Dialog dialog) override { asked.push_back("dialog " + std::to_string(int(dialog))); }
  void toggle_theme() override { asked.emplace_back("theme"); }
  void fit_view() override { asked.emplace_back("fit"); }
  void find_text() override { asked.emplace_back("find"); }
  void close_window() override { asked.emplace_back("close"); }
  void prepare_rerun() override { asked.emplace_back("rerun"); }
  std::vector<session::RecentFile> recent_files() const override { return {}; }
  void copy_text(const std::string& text) override { asked.push_back("copy " + text); }

  std::vector<std::string> asked;

 private:
  session::Session session_{{}};
};

}  // namespace keyscope::window
