#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/panels/panel_context.hpp"
#include "app/session/live_capture.hpp"

namespace keyscope::window {

// What a live run is made from: model, prompt, policies, budget, block. Configured first, started by Run.
class LiveForm {
 public:
  LiveForm();

  // Takes over what the command line asked for.
  void fill(const session::LiveRequest& request);

  // After a run with what it holds has begun: leave to replace a recording ends with the run it was given
  // for.
  void started() { replace_ = false; }

  // What Run would start; empty, with the problem in words, where a field cannot be.
  std::optional<session::LiveRequest> request(std::string& problem) const;

  // Returns what Run was pressed for; fields that cannot be are named beside them and keep Run from working.
  std::optional<session::LiveRequest> draw(PanelContext& context);

 private:
  void draw_policies(PanelContext& context);
  void draw_numbers(PanelContext& context);

  session::LiveRequest base_;  // what the form has no fields for
  std::string model_;
  std::string prompt_;
  std::string out_;
  bool replace_ = false;            // whether `out_` may exist
  std::vector<std::string> names_;  // of the registered policies
  std::vector<char> chosen_;
  int budget_ = 256;
  int block_ = 64;
  int generate_ = 0;
};

}  // namespace keyscope::window
