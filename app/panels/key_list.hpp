#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// The list of all keys and mouse gestures, in two columns where the window has the room.
class KeyList {
 public:
  explicit KeyList(const PanelContext& context);

  // Of a dialog that it fits into, in pixels.
  float width() const { return static_cast<float>(n_columns_) * column_ + 2 * margin_; }
  void draw(const PanelContext& context) const;

 private:
  struct Row {
    std::string keys;
    std::string_view what;
  };

  void draw_row(const PanelContext& context, const Row& row, float x) const;

  std::vector<Row> rows_;
  float keys_width_ = 0;  // of the widest keys, and of a whole column, with what keeps it from the next
  float column_ = 0;
  float margin_ = 0;
  int n_columns_ = 1;
};

}  // namespace keyscope::window
