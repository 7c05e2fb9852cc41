#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "app/figures/token_filter.hpp"
#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// Histograms of what the selected head's tokens have: position, score, attention, norm, margin. A drag across
// one chooses a part of it; tokens that lie in all chosen parts are selected, everywhere, and the other
// histograms show these.
class FilterPanel {
 public:
  void draw(PanelContext& context, const Rect& rect);

 private:
  void measure(const PanelContext& context);
  void count();
  void choose(PanelContext& context, bool settled);
  bool chooses() const;
  void draw_bars(const PanelContext& context, std::size_t which, const Rect& plot) const;
  void take_mouse(PanelContext& context, std::size_t which, const Rect& plot);
  void draw_one(PanelContext& context, std::size_t which, const Rect& rect);

  std::pair<std::shared_ptr<const session::HeadPoints>, std::int64_t> measured_;  // and the block
  std::vector<figures::TokenQuantity> quantities_;
  std::vector<figures::FilteredHistogram> histograms_;  // of each
  std::shared_ptr<const session::TokenSet> chosen_;     // the session's selection, if it is the filter's
  int dragged_ = -1;                                    // the quantity whose part is being drawn
  double from_ = 0, to_ = 0;                            // shares along it where the drag began and is
};

}  // namespace keyscope::window
