#include "app/figures/side_by_side.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/figures/scales.hpp"

namespace keyscope::figures {

namespace {

bool can_be_one(const MeantScale& a, const MeantScale& b) {
  return a.meaning == b.meaning && a.scale.id == b.scale.id && a.scale.units == b.scale.units &&
         a.scale.colour_map == b.scale.colour_map && a.scale.logarithmic == b.scale.logarithmic &&
         a.scale.categories == b.scale.categories;
}

}  // namespace

std::string meaning_of(const recording::RunPlan& plan, KeyColour colour) {
  std::string meaning(id_of(colour));
  if (colour != KeyColour::kScore && colour != KeyColour::kMargin) return meaning;
  return meaning + " by " + (plan.policy == "none" ? "keydiff" : plan.policy);
}

std::optional<ColourScale> shared_scale(const std::vector<MeantScale>& scales) {
  if (scales.empty()) return std::nullopt;
  ColourScale shared = scales.front().scale;
  for (const MeantScale& each : scales) {
    if (!can_be_one(scales.front(), each)) return std::nullopt;
    // Of the names, the shortest: what one run adds in brackets holds for it alone.
    if (each.scale.long_name.size() < shared.long_name.size()) shared.long_name = each.scale.long_name;
    shared.low = std::min(shared.low, each.scale.low);
    shared.high = std::max(shared.high, each.scale.high);
  }
  return shared;
}

namespace {

// How many bytes all begin with, or end with, so that no word is cut in two.
std::size_t common_start(const std::vector<std::string>& texts, std::string_view break_at) {
  std::size_t n = texts.front().size();
  for (const std::string& text : texts)
    n = std::min<std::size_t>(n, std::ranges::mismatch(texts.front(), text).in1 - texts.front().begin());
  if (n == texts.front().size() &&
      std::ranges::all_of(texts, [&](const auto& text) { return text.size() == n; }))
    return n;
  const std::size_t at = std::string_view(texts.front()).substr(0, n).rfind(break_at);
  return at == std::string_view::npos ? 0 : at + break_at.size();
}

std::size_t common_end(const std::vector<std::string>& texts, std::size_t start) {
  std::size_t n = texts.front().size() - start;
  for (const std::string& text : texts) {
    std::size_t same = 0;
    while (same < std::min(n, text.size() - start) &&
           text[text.size() - 1 - same] == texts.front()[texts.front().size() - 1 - same])
      ++same;
    n = same;
  }
  const std::string_view tail = std::string_view(texts.front()).substr(texts.front().size() - n);
  const std::size_t at = std::min(tail.find(", "), tail.find(". "));
  return at == std::string_view::npos ? 0 : n - at;
}

// "…, keydiff, N = 253 and none, B = 64. …"
std::string joined_captions(const std::vector<std::string>& captions) {
  const std::size_t start = common_start(captions, ", ");
  const std::string& first = captions.front();
  if (start == first.size()) return first;
  const std::size_t end = common_end(captions, start);
  std::vector<std::string> middles;
  middles.reserve(captions.size());
  for (const std::string& caption : captions)
    middles.push_back(caption.substr(start, caption.size() - end - start));
  return fmt::format("{}{}{}", first.substr(0, start), fmt::join(middles, " | "),
                     first.substr(first.size() - end));
}

std::string without_end(std::string_view text, std::string_view end) {
  while (!text.empty() && end.find(text.back()) != std::string_view::npos) text.remove_suffix(1);
  return std::string(text);
}

// One scale where the numbers mean the same.
void share_map_scales(std::vector<Panel>& panels) {
  std::vector<MeantScale> scales;
  for (const Panel& panel : panels) {
    if (!panel.heatmap) return;
    scales.push_back({*panel.heatmap, panel.heatmap->long_name});
  }
  const auto shared = shared_scale(scales);
  if (!shared) return;
  for (Panel& panel : panels) {
    panel.heatmap->low = shared->low;
    panel.heatmap->high = shared->high;
  }
}

}  // namespace

Figure side_by_side(std::vector<Figure> figures, const std::vector<std::string>& names) {
  if (figures.size() == 1) return std::move(figures.front());
  std::vector<std::string> titles, captions;
  for (const Figure& figure : figures) {
    titles.push_back(figure.title);
    captions.push_back(figure.caption);
  }
  const std::size_t start = common_start(titles, ": ");
  Figure joined = figures.front();
  joined.title = without_end(titles.front().substr(0, start), ": ");
  joined.caption = joined_captions(captions);
  joined.panels.clear();
  joined.multiples.reset();
  joined.view.runs = names;
  std::set<std::string> ids;
  for (std::size_t i = 0; i < figures.size(); ++i)
    for (Panel& panel : figures[i].panels) {
      if (panel.title != names[i])
        panel.title = panel.title.empty() ? names[i] : fmt::format("{}: {}", names[i], panel.title);
      const std::string own = titles[i].substr(start);
      if (!own.empty()) panel.note = panel.note.empty() ? own : fmt::format("{}; {}", own, panel.note);
      for (int n = 2; !ids.insert(panel.id).second; ++n)
        panel.id = fmt::format("{}_{}", figures[i].panels.front().id, n);
      joined.panels.push_back(std::move(panel));
    }
  const std::size_t n_each = joined.panels.size() / figures.size();
  joined.columns =
      n_each == 1 ? static_cast<int>(std::min<std::size_t>(2, figures.size())) : figures.front().columns;
  joined.shared_ranges = n_each == 1;
  share_point_scales(joined.panels);
  share_map_scales(joined.panels);
  return joined;
}

}  // namespace keyscope::figures
