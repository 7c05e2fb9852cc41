#include "app/panels/text_layout.hpp"

#include <utility>

namespace keyscope::window {

TextLayout::TextLayout(const std::vector<std::string>& labels, const std::vector<bool>& breaks, float width,
                       const Measure& measure)
    : width_(width) {
  append(labels, breaks, measure);
}

void TextLayout::append(const std::vector<std::string>& labels, const std::vector<bool>& breaks,
                        const Measure& measure) {
  float x = places_.empty() ? 0 : places_.back().x + places_.back().width;
  bool new_line = ends_line_;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    std::string label = labels[i];
    float w = measure(label);
    if (!new_line && x + w > width_) new_line = true;
    if (new_line) {
      line_begin_.push_back(n_tokens());
      x = 0;
      if (label.size() > 1 && label.front() == ' ') {
        label.erase(0, 1);
        w = measure(label);
      }
    }
    places_.push_back({x, w, static_cast<std::int32_t>(line_begin_.size() - 1)});
    labels_.push_back(std::move(label));
    x += w;
    new_line = breaks[i];
  }
  ends_line_ = new_line;
}

std::int64_t TextLayout::first_of(std::int64_t line) const {
  return line < n_lines() ? line_begin_[static_cast<std::size_t>(line)] : n_tokens();
}

std::optional<std::int64_t> TextLayout::token_at(std::int64_t line, float x) const {
  if (line < 0 || line >= n_lines()) return std::nullopt;
  for (std::int64_t token = first_of(line); token < first_of(line + 1); ++token)
    if (x >= place(token).x && x < place(token).x + place(token).width) return token;
  return std::nullopt;
}

}  // namespace keyscope::window
