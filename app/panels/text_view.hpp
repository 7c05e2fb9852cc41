#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/panels/panel_context.hpp"
#include "app/panels/text_layout.hpp"
#include "app/session/text_search.hpp"
#include "app/session/token_shades.hpp"

namespace keyscope::window {

// The whole prompt and what was generated as text: every token shaded by what it received or scored, struck
// out when it was evicted, dim while it is still to come. Pointing at a token hovers it everywhere, a click
// holds it; what is held elsewhere comes into sight.
class TextView {
 public:
  void draw(PanelContext& context, const Rect& rect);

  // Ctrl+F: the search field takes the keyboard.
  void find();
  nlohmann::ordered_json describe() const;

 private:
  void draw_tools(PanelContext& context);
  void draw_search(PanelContext& context);
  void go_to_match(std::int64_t by, PanelContext& context);
  void update_layout(const PanelContext& context, float width);
  void update_shades(const PanelContext& context);
  void update_matches(const PanelContext& context);
  void draw_lines(PanelContext& context, float height);
  void draw_token(const PanelContext& context, std::int64_t token, float x, float y) const;
  bool is_found(std::int64_t token) const;
  void scroll_to(std::int64_t token) { scroll_to_ = token; }

  TextLayout layout_;
  const void* layout_recording_ = nullptr;
  int layout_run_ = -1;
  std::int64_t layout_tokens_ = -1;
  float layout_width_ = -1;

  std::size_t shade_ = 0;  // index into shade_choices()
  std::shared_ptr<const session::HeadPoints> shaded_points_;
  std::int64_t shaded_block_ = -1;
  std::size_t shaded_by_ = 0;
  std::vector<float> strengths_;

  std::string wanted_, found_;  // what is typed, and what `matches_` is of
  std::vector<session::TextMatch> matches_;
  std::int64_t match_ = -1;  // the one that was gone to
  bool focus_search_ = false;

  std::optional<std::int64_t> scroll_to_, held_;
  std::int64_t first_line_ = 0, last_line_ = 0;  // in sight
};

}  // namespace keyscope::window
