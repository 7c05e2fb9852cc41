#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace keyscope::evaluation {

// One stretch of a text that a model reads from its beginning.
struct TextWindow {
  std::vector<std::int32_t> ids;  // `length`, the special token in front included
  std::int64_t first = 0;         // token of the text that its first one is, the special token not counted
  std::int64_t first_scored = 0;  // position in `ids` of the first token that is scored; at least 1
};

// How a text is cut.
struct WindowRule {
  std::int64_t length = 0;  // tokens of a window, the special token included; at least 2
  // Tokens that a window begins behind the one before it, which are the ones it scores, its last: 1 to the
  // number of its tokens that can be scored, all but the first.
  std::int64_t stride = 0;
  std::optional<std::int32_t> bos;  // in front of every window
};

// The largest stride: every token is scored once but for those that windows begin with.
std::int64_t longest_stride(const WindowRule& rule);

// All whole windows of a text, in order; what is left at its end is in none, so that all weigh the same.
// Empty for a text that has fewer tokens than a window.
//   ids: of the text, without special tokens
//   throws InvalidInput on a rule that cannot be
std::vector<TextWindow> text_windows(std::span<const std::int32_t> ids, const WindowRule& rule);

}  // namespace keyscope::evaluation
