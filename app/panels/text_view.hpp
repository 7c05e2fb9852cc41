#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/display/layout.hpp"
#include "app/measures/find_text.hpp"
#include "app/panels/panel_context.hpp"
#include "app/session/session.hpp"
#include "app/session/tokens.hpp"

namespace keyscope::window {

// Where tokens stand when they are written one after another in lines of a width. Tokens of a word stay
// together where it is shorter than half a line. A token with a line break ends its line; a line begins with
// no space.
class TextLayout {
 public:
  // Width in pixels of a text.
  using Measure = std::function<float(const std::string& text)>;

  TextLayout() = default;
  //   labels: of the tokens, in order, as they are to be drawn; breaks: whether a line ends after each
  TextLayout(const std::vector<std::string>& labels, const std::vector<bool>& breaks, float width,
             const Measure& measure);

  // Further tokens behind the last one: what stands already stays where it is, but for the last word, so that
  // a text that grows costs what is new of it.
  void append(const std::vector<std::string>& labels, const std::vector<bool>& breaks,
              const Measure& measure);

  struct Place {
    float x = 0, width = 0;
    std::int32_t line = 0;
  };

  std::int64_t n_tokens() const { return static_cast<std::int64_t>(places_.size()); }
  std::int64_t n_lines() const { return static_cast<std::int64_t>(line_begin_.size()); }
  const std::string& label(std::int64_t token) const { return labels_[token]; }
  const Place& place(std::int64_t token) const { return places_[token]; }

  // The first token of a line; of the line after the last, n_tokens().
  std::int64_t first_of(std::int64_t line) const;

  // The token at x in a line.
  std::optional<std::int64_t> token_at(std::int64_t line, float x) const;

 private:
  void put(std::string label, const Measure& measure, bool new_line);
  std::int64_t word_begin() const;

  std::vector<std::string> labels_;
  std::vector<Place> places_;
  std::vector<std::int64_t> line_begin_;
  float width_ = 0;
  bool ends_line_ = true;  // the last token, or nothing stands yet
};

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
  void draw_legend(PanelContext& context) const;
  std::optional<figures::Colour> class_colour(const session::SessionState& state, std::int64_t token) const;
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
  bool flows_ = false;     // single line breaks are spaces: lines are broken by the width alone
  bool flow_chosen_ = false;
  std::shared_ptr<const session::HeadPoints> shaded_points_;
  std::int64_t shaded_block_ = -1;
  std::size_t shaded_by_ = 0;
  std::vector<float> strengths_;

  std::string wanted_, found_;  // what is typed, and what `matches_` is of
  std::vector<measures::TextMatch> matches_;
  std::int64_t match_ = -1;  // the one that was gone to
  bool focus_search_ = false;

  std::optional<std::int64_t> scroll_to_, held_;
  std::int64_t first_line_ = 0, last_line_ = 0;  // in sight
};

// The characters of the texts that were shown that the font for tokens did not have when they came.
class TextGlyphs {
 public:
  static constexpr std::size_t kMostGlyphs = 8000;  // each takes room on the graphics card

  using Has = std::function<bool(char32_t character)>;

  // What is new of the selected run's text and the font does not have.
  //   has: whether the font has it
  std::set<char32_t> take(const session::SessionState& state, const Has& has);

 private:
  std::set<char32_t> found_;
  const void* recording_ = nullptr;
  int run_ = -1;  // whose generated tokens were read
  std::int64_t n_read_ = 0;
};

// What is known of the token under the mouse, beside it and inside the plot where it fits.
void draw_token_tooltip(PanelContext& context, const session::TokenFacts& facts, const Rect& plot);

}  // namespace keyscope::window
