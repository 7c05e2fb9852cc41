#include "app/session/made_figures.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "app/session/guarded.hpp"
#include "app/session/watched_recording.hpp"

namespace keyscope::session {
namespace {

// Of the matrices that are looked at: tokens share cells only in prompts that are longer. What is far away is
// made coarser by the graphics card.
constexpr int kLargestMatrix = 4096;

std::size_t bytes_of(const MadeFigure& made) {
  std::size_t n = sizeof(made);
  if (!made.figure) return n;
  for (const figures::Panel& panel : made.figure->panels) {
    for (const auto& series : panel.points)
      n += 4 * (series.x.size() + series.y.size() + series.z.size() + series.token.size());
    for (const auto& series : panel.lines) n += 4 * (series.x.size() + series.y.size());
    if (panel.heatmap) n += 4 * static_cast<std::size_t>(panel.heatmap->values.size());
  }
  return n;
}

}  // namespace

MadeFigure make_figure(const recording::Recording& recording, const recording::RecordingInfo& info,
                       FigureKey key, JobWatch& job) {
  MadeFigure made{std::move(key), nullptr, {}};
  guarded(
      [&] {
        auto request = figure_request(info, made.key);
        request.max_size = kLargestMatrix;
        const WatchedRecording watched(recording, heads_of_figure(info, request), job);
        made.figure = std::make_shared<const figures::Figure>(figures::build_figure(watched, request));
      },
      [&](std::string what) { made.error = std::move(what); });
  return made;
}

const MadeFigure* MadeFigures::find(const FigureKey& key) {
  const auto found = std::ranges::find(entries_, key, &MadeFigure::key);
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return &entries_.front();
}

void MadeFigures::put(MadeFigure figure) {
  entries_.remove_if([&](const MadeFigure& entry) { return entry.key == figure.key; });
  entries_.push_front(std::move(figure));
  std::size_t bytes = 0;
  auto entry = entries_.begin();
  for (; entry != entries_.end(); ++entry) {
    bytes += bytes_of(*entry);
    if (bytes > max_bytes_ && entry != entries_.begin()) break;  // the newest stays whatever its size
  }
  entries_.erase(entry, entries_.end());
}

}  // namespace keyscope::session
