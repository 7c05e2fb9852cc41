#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/panels/panel_context.hpp"
#include "app/session/file_choice.hpp"
#include "app/session/live_request.hpp"

namespace keyscope::window {

// What a live run is made from: model, prompt, policies, budget, block. Configured first, started by Run.
class LiveForm {
 public:
  LiveForm();

  // Takes over what the command line asked for.
  void fill(const session::LiveRequest& request);
  // Takes over the prompt of a recording, its policies, budget and block; the model stays as it is.
  void fill_from(const recording::RecordingInfo& info, int run);

  // What was dropped on the window.
  void take_model(const std::string& folder) { model_ = folder; }
  void take_prompt_file(const std::string& path);

  // After a run with what it holds has begun: leave to replace a recording ends with the run it was given
  // for.
  void started() { replace_ = false; }
  // Before another run of the same: its recording gets a name that is free.
  void again();

  // What Run would start, and what keeps it from doing so.
  session::LiveRequest request() const;
  session::LiveProblems problems() const;

  // Returns what Run was pressed for; what cannot be is said at its field and keeps Run from working.
  std::optional<session::LiveRequest> draw(PanelContext& context);

 private:
  void draw_model(PanelContext& context, const std::string& problem);
  void draw_prompt(PanelContext& context, const std::string& problem);
  bool draw_browse(PanelContext& context, session::DesktopDialog::Kind kind, const char* title,
                   std::string& path);
  void draw_policies(PanelContext& context, const std::string& problem);
  void draw_numbers(PanelContext& context, const session::LiveProblems& problems);
  void draw_out(PanelContext& context, const std::string& problem);
  void draw_order(PanelContext& context);
  static void draw_look(PanelContext& context);
  bool draw_run(PanelContext& context, const session::LiveProblems& problems);

  // "1,234 tokens; 25% of them are 309 rows": what the prompt and the budget amount to.
  std::string amounts(const session::LiveRequest& request);

  session::PromptCounter counter_;
  session::LiveRequest base_;  // what the form has no fields for
  std::string model_;
  std::string prompt_;
  std::string prompt_file_;  // read instead of `prompt_`; empty: none
  std::string ids_from_;     // whose prompt the ids in `base_` are
  std::string out_;
  bool replace_ = false;            // whether `out_` may exist
  std::vector<std::string> names_;  // of the registered policies
  std::vector<char> chosen_;
  std::string budget_ = "256";
  std::string answer_;
  std::string options_;  // policies with options of their own, as --policy takes them
  bool together_ = true, paused_ = false, cache_positions_ = false;
  session::DesktopDialog desktop_;  // asks for `*wanted_`
  std::string* wanted_ = nullptr;
  int block_ = 64;
  int generate_ = 0;
};

// Progress, Pause or Run, Step and Cancel of a live run; nothing without one.
void draw_live_controls(PanelContext& context);
float live_controls_height(const PanelContext& context);

}  // namespace keyscope::window
