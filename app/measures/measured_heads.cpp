#include "app/measures/measured_heads.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <Eigen/Core>
#include <oneapi/tbb/collaborative_call_once.h>
#include <oneapi/tbb/parallel_for.h>

#include "analysis/similarity.hpp"
#include "analysis/statistics.hpp"
#include "app/measures/head_data.hpp"
#include "app/measures/recording_measures.hpp"

namespace keyscope::measures {
namespace {

using End = std::pair<int, std::int64_t>;  // a run, and one of its blocks

std::vector<End> ends_of(const recording::Recording& recording, std::span<const Moment> moments) {
  const auto info = recording.info();
  std::vector<End> ends;
  for (const auto& [run, block] : moments) ends.emplace_back(run, find_block_end(*info, run, block).block);
  return ends;
}

analysis::Percentiles percentiles_of(const Eigen::VectorXd& values) {
  return analysis::percentiles_of({values.data(), static_cast<std::size_t>(values.size())});
}

analysis::Percentiles percentiles_of(const analysis::NormSummary& norms) {
  return {norms.p05, norms.median, norms.p95};
}

std::vector<HeadProfile> profile_heads(const recording::Recording& recording, int run) {
  const auto info = recording.info();
  const std::vector<recording::LayerHead> heads = info->all_heads();
  std::vector<std::optional<HeadProfile>> found(heads.size());
  oneapi::tbb::parallel_for(std::size_t{0}, heads.size(), [&](std::size_t i) {
    const auto& [layer, kv_head] = heads[i];
    const HeadData head = read_head(recording, *info, {run, layer, kv_head});
    if (head.keys.rows() == 0) return;
    const analysis::HeadGeometry geometry = analysis::measure_head_geometry(head.keys, head.queries);
    found[i] = {layer,
                kv_head,
                percentiles_of(geometry.key_cosines),
                percentiles_of(geometry.query_cosines),
                percentiles_of(geometry.key_norms),
                percentiles_of(geometry.query_norms)};
  });
  std::vector<HeadProfile> profiles;
  for (const auto& profile : found)
    if (profile) profiles.push_back(*profile);
  return profiles;
}

}  // namespace

struct MeasuredHeads::Known {
  // What is made by whoever needs it first. Those who need it meanwhile help, and where that fails the next
  // one tries again. It is made to its end even where the tasks of the first are called off, as others may
  // need it: oneTBB makes it within the context of the arena, not of the task.
  template <typename Value>
  class Once {
   public:
    template <typename Make>
    const Value& get(const Make& make) {
      oneapi::tbb::collaborative_call_once(flag_, [&] { value_ = make(); });
      return value_;
    }

   private:
    oneapi::tbb::collaborative_once_flag flag_;
    Value value_;
  };

  // Some parts at some moments, measured in one go.
  struct Pass {
    explicit Pass(Parts of) : parts(of) {}

    Parts parts;
    std::vector<Moment> moments;
    Once<std::vector<std::vector<HeadMeasures>>> heads;  // [moment][head]

    const std::vector<std::vector<HeadMeasures>>& measure(const recording::Recording& recording) {
      return heads.get([&] { return measure_heads(recording, moments, parts); });
    }
  };

  // Where measures of a moment are.
  struct Place {
    std::shared_ptr<Pass> pass;
    std::size_t moment = 0;  // of the pass
  };

  std::mutex mutex;  // of the two maps, not of what is made
  std::map<End, std::vector<Place>> places;
  std::map<int, Once<std::vector<HeadProfile>>> profiles;

  // Sets up passes for what has no place yet, one for all moments that lack the same parts.
  void plan(std::span<const End> ends, Parts parts) {
    std::vector<std::shared_ptr<Pass>> passes;
    for (const End& end : ends) {
      Parts missing = parts;
      for (const Place& place : places[end]) missing = missing - place.pass->parts;
      if (missing.empty()) continue;
      auto pass = std::ranges::find(passes, missing, [](const auto& planned) { return planned->parts; });
      if (pass == passes.end()) pass = passes.insert(pass, std::make_shared<Pass>(missing));
      places[end].push_back({*pass, (*pass)->moments.size()});
      (*pass)->moments.push_back({end.first, end.second});
    }
  }
};

MeasuredHeads::MeasuredHeads(const recording::Recording& recording)
    : recording_(recording), known_(std::make_unique<Known>()) {}

MeasuredHeads::~MeasuredHeads() = default;

void MeasuredHeads::expect(Parts parts, std::span<const Moment> moments) const {
  const std::vector<End> ends = ends_of(recording_, moments);
  const std::lock_guard lock(known_->mutex);
  known_->plan(ends, parts);
}

std::vector<std::span<const HeadMeasures>> MeasuredHeads::with(Part part,
                                                               std::span<const Moment> moments) const {
  const std::vector<End> ends = ends_of(recording_, moments);
  std::vector<Known::Place> places;
  {
    const std::lock_guard lock(known_->mutex);
    known_->plan(ends, {part});
    for (const End& end : ends)
      places.push_back(*std::ranges::find_if(
          known_->places[end], [&](const Known::Place& place) { return place.pass->parts.has(part); }));
  }
  std::vector<std::span<const HeadMeasures>> heads;
  for (const Known::Place& place : places) heads.emplace_back(place.pass->measure(recording_)[place.moment]);
  return heads;
}

const std::vector<HeadProfile>& MeasuredHeads::profiles(int run) const {
  const auto once = [&] {
    const std::lock_guard lock(known_->mutex);
    return &known_->profiles[run];
  }();
  return once->get([&] { return profile_heads(recording_, run); });
}

}  // namespace keyscope::measures
