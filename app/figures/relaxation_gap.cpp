#include "app/figures/relaxation_gap.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/head_selection.hpp"
#include "app/figures/labels.hpp"
#include "app/figures/spread.hpp"
#include "app/measures/retained_sets.hpp"

namespace keyscope::figures {
namespace {

using measures::SetObjective;
using recording::RecordingInfo;

constexpr std::int64_t kMostProducts = 2'000'000'000;  // a sweep of all searches: about a minute in all
constexpr double kBeside = 0.22;

// One of the sets whose objectives stand side by side.
struct Set {
  const char* id;
  const char* label;
  Colour colour;
  Marker marker;
  double SetObjective::*objective;
};
constexpr std::array kSets{
    Set{"retained", "retained by the run", kBlue, Marker::kDisc, &SetObjective::retained},
    Set{"at_once", "Eq. 8 on all keys at once", kOrange, Marker::kSquare, &SetObjective::at_once},
    Set{"best", "best set found", kGreen, Marker::kDiamond, &SetObjective::best}};

double mean_cosine(const SetObjective& head, double objective) {
  return objective / (static_cast<double>(head.n_retained) * static_cast<double>(head.n_retained));
}

std::vector<int> evicting_runs(const RecordingInfo& info, const RelaxationGapSelection& selection) {
  std::vector<int> runs;
  for (const int run : selection.runs) {
    require_run(info, run);
    if (info.runs[static_cast<std::size_t>(run)].plan.policy != "none") runs.push_back(run);
  }
  if (runs.empty())
    throw FileError(
        fmt::format("{}: no run that evicts was chosen: the full cache has no choice to make", info.source));
  return runs;
}

std::int64_t heads_in_reach(const RecordingInfo& info, std::size_t n_runs) {
  const std::int64_t per_head = std::max<std::int64_t>(1, info.n_prompt() * info.model.head_dim);
  return std::max<std::int64_t>(1, kMostProducts / per_head / static_cast<std::int64_t>(n_runs));
}

Panel empty_panel(const char* id, const char* title, const char* y) {
  Panel panel;
  panel.id = id;
  panel.title = title;
  panel.y.label = y;
  return panel;
}

std::string note_of(const RecordingInfo& info, std::size_t n_measured, std::size_t n_unfinished) {
  const std::size_t n_heads = info.layers.size() * info.heads.list(info.model.n_kv_heads).size();
  std::string note = n_measured < n_heads ? fmt::format("{} of {} heads, evenly spaced", n_measured, n_heads)
                                          : fmt::format("{} head{}", n_heads, n_heads == 1 ? "" : "s");
  if (n_unfinished > 0) note += fmt::format("; {} searches stopped before they ended", n_unfinished);
  return note;
}

}  // namespace

Figure relaxation_gap_figure(const recording::Recording& recording, const RelaxationGapSelection& selection) {
  const auto info = recording.info();
  require_keys(*info);
  const std::vector<int> runs = evicting_runs(*info, selection);
  std::vector<SpreadSeries> spreads;
  for (const Set& set : kSets) spreads.emplace_back(set.id, set.label, set.colour, set.marker, 5);
  SpreadSeries gaps("gap", "retained minus best", kBlack, Marker::kDisc, 5);
  Panel left = empty_panel("objective", "Eq. A.2's objective", "Σ cos / N²");
  Panel right = empty_panel("gap", "distance from the best set found", "difference of Σ cos / N²");
  Figure figure;
  std::size_t n_measured = 0, n_unfinished = 0;
  const auto [names, key] = name_runs(*info, runs);
  left.x.categories = right.x.categories = names;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const int run = runs[r];
    const auto& about = info->runs[static_cast<std::size_t>(run)];
    const auto place = static_cast<double>(r);
    figure.view.runs.push_back(about.plan.name);
    const auto heads = measures::measure_set_objectives(
        recording, run, {resolve_block(about, selection.block), heads_in_reach(*info, runs.size())});
    n_measured = std::max(n_measured, heads.size());
    std::vector<double> gap;
    for (const SetObjective& head : heads) {
      gap.push_back(head.gap());
      n_unfinished += head.converged || head.optimal ? 0 : 1;
    }
    gaps.add(place, gap);
    for (std::size_t s = 0; s < kSets.size(); ++s) {
      std::vector<double> values;
      for (const SetObjective& head : heads) values.push_back(mean_cosine(head, head.*kSets.at(s).objective));
      spreads[s].add(place + kBeside * (static_cast<double>(s) - 1), values);
    }
  }
  left.note = right.note = note_of(*info, n_measured, n_unfinished);
  for (SpreadSeries& spread : spreads) std::move(spread).put_into(left);
  std::move(gaps).put_into(right);
  figure.name = "relaxation-gap";
  figure.title = "How far policies stay from the least redundant set";
  figure.columns = 2;
  figure.panels = {std::move(left), std::move(right)};
  figure.view.block = selection.block;
  figure.caption = fmt::format(
      "{}{}. Median and 5 to 95 % of heads; N: the keys that the run retained, of all that it had seen.{}",
      describe_prompt(*info), describe_budget(*info, runs), key);
  return figure;
}

}  // namespace keyscope::figures
