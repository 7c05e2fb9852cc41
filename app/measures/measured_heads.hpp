#pragma once

#include <memory>
#include <span>
#include <vector>

#include "analysis/statistics.hpp"
#include "app/measures/head_measures.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::measures {

// How the keys and queries of a KV head lie, over all prompt tokens that the run has seen: what of
// analysis::HeadGeometry a figure of all heads is drawn from.
struct HeadProfile {
  int layer = 0;
  int kv_head = 0;
  analysis::Percentiles key_cosines, query_cosines;  // to the mean key, to the mean query
  analysis::Percentiles key_norms, query_norms;
};

// A recording's heads, measured for several figures that are made of it: what one of them has asked for is
// there for the others, and what two ask for at the same time is measured once, by the threads of both.
// Measures are those of measure_head.
class MeasuredHeads {
 public:
  // Nothing is measured yet. Implicit, so that a figure which shares nothing is made of a recording itself.
  //   recording: outlives this; of one that grows, each call is about what is there then
  MeasuredHeads(const recording::Recording& recording);
  ~MeasuredHeads();
  MeasuredHeads(const MeasuredHeads&) = delete;
  MeasuredHeads& operator=(const MeasuredHeads&) = delete;

  const recording::Recording& recording() const { return recording_; }

  // At each moment every recorded head, in order of layer and KV head, with this part; which others are known
  // varies. Valid as long as this is.
  //   throws as measure_head
  std::vector<std::span<const HeadMeasures>> with(Part part, std::span<const Moment> moments) const;

  // Says what is about to be asked for: once the first of these parts is, all of them are measured, so that
  // what they have in common is read once.
  void expect(Parts parts, std::span<const Moment> moments) const;

  // Every recorded head of a run, by layer and KV head; heads without keys are left out.
  //   throws FileError as the recording does, and on keys or queries that are not finite
  const std::vector<HeadProfile>& profiles(int run) const;

 private:
  struct Known;

  const recording::Recording& recording_;
  std::unique_ptr<Known> known_;
};

}  // namespace keyscope::measures
