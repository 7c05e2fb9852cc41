#include "app/evaluation/text_windows.hpp"

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::evaluation {

std::int64_t longest_stride(const WindowRule& rule) { return rule.length - 1; }

std::vector<TextWindow> text_windows(std::span<const std::int32_t> ids, const WindowRule& rule) {
  if (rule.length < 2)
    throw InvalidInput(fmt::format("windows of {} tokens: expected at least 2", rule.length));
  if (rule.stride < 1 || rule.stride > longest_stride(rule))
    throw InvalidInput(
        fmt::format("a stride of {}: expected 1 to {}, the tokens that a window of {} can score", rule.stride,
                    longest_stride(rule), rule.length));
  const std::int64_t n_text = rule.length - (rule.bos ? 1 : 0);
  std::vector<TextWindow> windows;
  for (std::int64_t first = 0; first + n_text <= std::ssize(ids); first += rule.stride) {
    TextWindow window;
    if (rule.bos) window.ids.push_back(*rule.bos);
    const auto part = ids.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n_text));
    window.ids.insert(window.ids.end(), part.begin(), part.end());
    window.first = first;
    window.first_scored = rule.length - rule.stride;
    windows.push_back(std::move(window));
  }
  return windows;
}

}  // namespace keyscope::evaluation
