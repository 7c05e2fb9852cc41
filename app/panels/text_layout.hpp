#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/panels/layout.hpp"

namespace keyscope::window {

// Where tokens stand when they are written one after another in lines of a width: words are not kept
// together, for tokens are what it is about. A token with a line break ends its line; a line begins with no
// space.
class TextLayout {
 public:
  // Width in pixels of a text.
  using Measure = std::function<float(const std::string& text)>;

  TextLayout() = default;
  //   labels: of the tokens, in order, as they are to be drawn; breaks: whether a line ends after each
  TextLayout(const std::vector<std::string>& labels, const std::vector<bool>& breaks, float width,
             const Measure& measure);

  // Further tokens behind the last one: what stands already stays where it is, so that a text that grows
  // costs what is new of it.
  void append(const std::vector<std::string>& labels, const std::vector<bool>& breaks,
              const Measure& measure);

  struct Place {
    float x = 0, width = 0;
    std::int32_t line = 0;
  };

  std::int64_t n_tokens() const { return static_cast<std::int64_t>(places_.size()); }
  std::int64_t n_lines() const { return static_cast<std::int64_t>(line_begin_.size()); }
  const std::string& label(std::int64_t token) const { return labels_[static_cast<std::size_t>(token)]; }
  const Place& place(std::int64_t token) const { return places_[static_cast<std::size_t>(token)]; }

  // The first token of a line; of the line after the last, n_tokens().
  std::int64_t first_of(std::int64_t line) const;

  // The token at x in a line.
  std::optional<std::int64_t> token_at(std::int64_t line, float x) const;

 private:
  std::vector<std::string> labels_;
  std::vector<Place> places_;
  std::vector<std::int64_t> line_begin_;
  float width_ = 0;
  bool ends_line_ = true;  // the last token, or nothing stands yet
};

}  // namespace keyscope::window
