#pragma once

#include <cstddef>
#include <list>

#include "app/session/figure_choice.hpp"
#include "app/session/job_watch.hpp"

namespace keyscope::session {

// Makes the figure that a key asks for, in as many cells as are looked at; where that fails, `error` says
// why.
//   recording: the one that the key's `source` says; info: of it, when the key was made
//   job: is told of the heads that are read; once it is called off, the next read ends the figure
MadeFigure make_figure(const recording::Recording& recording, const recording::RecordingInfo& info,
                       FigureKey key, JobWatch& job);

// Figures that were made, the most recently used first, up to a number of bytes.
class MadeFigures {
 public:
  static constexpr std::size_t kDefaultBytes = std::size_t{256} << 20U;

  explicit MadeFigures(std::size_t max_bytes = kDefaultBytes) : max_bytes_(max_bytes) {}

  const MadeFigure* find(const FigureKey& key);  // null: not there; valid until the next call
  void put(MadeFigure figure);
  void clear() { entries_.clear(); }
  std::size_t size() const { return entries_.size(); }

 private:
  std::size_t max_bytes_;
  std::list<MadeFigure> entries_;
};

}  // namespace keyscope::session
