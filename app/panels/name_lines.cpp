#include "app/panels/name_lines.hpp"

#include <algorithm>
#include <limits>
#include <optional>

namespace keyscope::window {
namespace {

struct Halves {
  std::string first, second;
};

// The break that leaves the longer line shortest; if neither does, the one that fills the first line.
std::optional<Halves> break_in_two(const std::string& name, float room, const TextMeasure& measure) {
  std::optional<Halves> best;
  float longest = std::numeric_limits<float>::infinity();
  for (std::size_t space = name.find(' '); space != std::string::npos; space = name.find(' ', space + 1)) {
    Halves halves{name.substr(0, space), name.substr(space + 1)};
    const float first = measure(halves.first);
    if (first > room) break;
    const float longer = std::max(first, measure(halves.second));
    if (longer > longest && longest <= room) break;
    longest = longer;
    best = std::move(halves);
  }
  return best;
}

}  // namespace

std::string cut_text(const std::string& text, float width, const TextMeasure& measure) {
  if (measure(text) <= width) return text;
  static const std::string kEllipsis = "…";
  std::size_t length = text.size();
  while (length > 0) {
    --length;
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) --length;
    const std::string cut = text.substr(0, length) + kEllipsis;
    if (measure(cut) <= width) return cut;
  }
  return kEllipsis;
}

std::vector<std::string> name_lines(const std::string& name, float room, const TextMeasure& measure) {
  if (measure(name) <= room) return {name};
  if (auto halves = break_in_two(name, room, measure))
    return {std::move(halves->first), cut_text(halves->second, room, measure)};
  return {cut_text(name, room, measure)};
}

}  // namespace keyscope::window
