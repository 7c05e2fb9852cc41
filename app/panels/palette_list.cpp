#include "app/panels/palette_list.hpp"

#include <algorithm>
#include <utility>

#include "app/session/fuzzy_match.hpp"

namespace keyscope::window {
namespace {

constexpr int kRefused = 8;  // what an entry's score loses where it cannot be done now: a word's beginning

}  // namespace

void PaletteList::start(std::vector<PaletteEntry> offered) {
  offered_ = std::move(offered);
  search({});
}

void PaletteList::search(const std::string& wanted, std::vector<PaletteEntry> direct) {
  direct_ = std::move(direct);
  std::vector<std::pair<int, const PaletteEntry*>> fitting;
  for (const PaletteEntry& entry : offered_)
    if (const auto score = session::fuzzy_score(wanted, entry.name))
      fitting.emplace_back(*score - (entry.refusal.empty() ? 0 : kRefused), &entry);
  // Without a word all fit, and the order in which they are offered says more than their lengths.
  if (wanted.find_first_not_of(' ') == std::string::npos)
    std::ranges::stable_partition(fitting, [](const auto& scored) { return scored.second->refusal.empty(); });
  else
    std::ranges::stable_sort(fitting, std::ranges::greater(), &std::pair<int, const PaletteEntry*>::first);
  shown_.clear();
  for (const PaletteEntry& entry : direct_) shown_.push_back(&entry);
  for (const auto& [score, entry] : fitting) shown_.push_back(entry);
  cursor_ = 0;
}

void PaletteList::move(std::ptrdiff_t by) {
  if (shown_.empty()) return;
  const auto n = std::ssize(shown_);
  const auto to = static_cast<std::ptrdiff_t>(cursor_) + by;
  const bool round = by == 1 || by == -1;
  cursor_ = static_cast<std::size_t>(round ? (to + n) % n : std::clamp<std::ptrdiff_t>(to, 0, n - 1));
}

void PaletteList::point(std::size_t place) {
  if (place < shown_.size()) cursor_ = place;
}

const PaletteEntry* PaletteList::chosen() const {
  if (cursor_ >= shown_.size() || !shown_[cursor_]->refusal.empty()) return nullptr;
  return shown_[cursor_];
}

}  // namespace keyscope::window
