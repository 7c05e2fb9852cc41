#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "app/figures/block_bars.hpp"
#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// The block that everything shows: play, and a slider over the run's blocks; where there is the height, with
// how many rows of the selected head each block evicted.
class TimelinePanel {
 public:
  void draw(PanelContext& context, const Rect& rect);

 private:
  // The slider's place and its blocks.
  struct Track {
    float left = 0, right = 0, y = 0;
    float top = 0;  // of the bars; y: there are none
    std::int64_t n_blocks = 0;

    float x_of(std::int64_t block) const;
    std::int64_t block_at(float x) const;
    float spacing() const;
  };

  void count(const PanelContext& context, const Track& track);
  void draw_slider(PanelContext& context, const Rect& rect, bool with_bars);
  void draw_bars(PanelContext& context, const Track& track) const;
  void draw_generated(PanelContext& context, const Track& track) const;
  std::string describe(const PanelContext& context, std::int64_t block) const;

  std::shared_ptr<const session::HeadPoints> counted_;  // that these are of; null: they are not known
  std::vector<std::int32_t> evicted_;                   // by block
  std::int32_t most_evicted_ = 0;
  std::int64_t n_bars_most_ = 0;  // that there is room for
  std::vector<figures::BlockBar> bars_;
};

}  // namespace keyscope::window
