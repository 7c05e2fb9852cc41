#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// What the selected run and another one keep of the selected head: how many rows both, one alone and neither
// keep, and a table of the tokens that only one kept, with the attention that went with them. A click on a
// token holds it, so that its story is shown.
class DifferenceView {
 public:
  void draw(PanelContext& context, const Rect& rect);
  nlohmann::ordered_json describe() const;

 private:
  enum Column : std::int16_t { kPosition, kToken, kKeptBy, kBlock, kReceived, kAfterwards };

  void draw_table(PanelContext& context);
  void draw_row(PanelContext& context, const measures::DifferingToken& token);
  void sort(int column, bool descending);
  void take(const session::MadeDifference& made);

  std::shared_ptr<const measures::PolicyDifference> shown_;
  std::vector<const measures::DifferingToken*> rows_;  // of `shown_`, as they are sorted and chosen
  int column_ = kAfterwards;
  bool descending_ = true;
  int which_ = 0;  // 0: all, 1: only the first run's, 2: only the other's
};

}  // namespace keyscope::window
