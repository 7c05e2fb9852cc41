#include "app/figures/head_spread.hpp"

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "app/figures/head_selection.hpp"
#include "app/figures/spread.hpp"
#include "app/measures/head_profile.hpp"

namespace keyscope::figures {
namespace {

using analysis::HeadGeometry;
using measures::HeadProfile;
using recording::RecordingInfo;

constexpr double kLayerWidth = 0.8;  // of the distance between two layers, for all of a layer's heads

// What is drawn of a head, for its keys or for its queries.
using AddHead = std::function<void(SpreadSeries&, double x, const HeadGeometry&)>;

struct Side {
  const char* id;
  const char* title;
  Colour colour;
  AddHead add;
};

double place_of(const HeadProfile& profile, int n_kv_heads) {
  const double middle = (profile.kv_head + 0.5) / n_kv_heads - 0.5;
  return profile.layer + kLayerWidth * middle;
}

float mark_size(const RecordingInfo& info) {
  const auto n_heads = info.layers.size() * static_cast<std::size_t>(info.model.n_kv_heads);
  return n_heads > 64 ? 3.5F : 6.0F;
}

Panel panel_of(const RecordingInfo& info, const std::vector<HeadProfile>& profiles, const Side& side,
               const Axis& y) {
  SpreadSeries spread(side.id, fmt::format("{}: median, 5 to 95 %", side.title), side.colour, Marker::kDisc,
                      mark_size(info));
  for (const HeadProfile& profile : profiles)
    side.add(spread, place_of(profile, info.model.n_kv_heads), profile.geometry);
  Panel panel;
  panel.id = side.id;
  panel.title = side.title;
  panel.x = {"layer", "", {}, true};
  panel.y = y;
  panel.note = fmt::format("{} KV head{} a layer, from left to right", info.model.n_kv_heads,
                           info.model.n_kv_heads == 1 ? "" : "s");
  std::move(spread).put_into(panel);
  return panel;
}

Figure spread_figure(const recording::Recording& recording, int run, const std::vector<Side>& sides,
                     const Axis& y) {
  const auto info = recording.info();
  require_run(*info, run);
  require_keys(*info);
  const auto& about = info->runs[static_cast<std::size_t>(run)];
  const auto profiles = measures::profile_heads(recording, run);
  Figure figure;
  for (const Side& side : sides)
    if (&side == &sides.front() || info->queries) figure.panels.push_back(panel_of(*info, profiles, side, y));
  figure.caption = describe_run(*info, about);
  figure.view.runs = {about.plan.name};
  return figure;
}

std::span<const double> entries_of(const Eigen::VectorXd& values) {
  return {values.data(), static_cast<std::size_t>(values.size())};
}

void add_norms(SpreadSeries& spread, double x, const analysis::NormSummary& norms) {
  spread.add(x, norms.p05, norms.median, norms.p95);
}

}  // namespace

Figure mean_cosines_figure(const recording::Recording& recording, int run) {
  Figure figure = spread_figure(recording, run,
                                {{"keys", "keys against the mean key", kBlue,
                                  [](SpreadSeries& spread, double x, const HeadGeometry& head) {
                                    spread.add(x, entries_of(head.key_cosines));
                                  }},
                                 {"queries", "queries against the mean query", kPurple,
                                  [](SpreadSeries& spread, double x, const HeadGeometry& head) {
                                    spread.add(x, entries_of(head.query_cosines));
                                  }}},
                                {"cosine", ""});
  figure.name = "mean-cosines";
  figure.title = "Keys and queries against their means";
  figure.shared_ranges = true;
  figure.columns = 1;
  return figure;
}

Figure norms_figure(const recording::Recording& recording, int run) {
  Figure figure = spread_figure(recording, run,
                                {{"keys", "keys", kBlue,
                                  [](SpreadSeries& spread, double x, const HeadGeometry& head) {
                                    add_norms(spread, x, head.key_norms);
                                  }},
                                 {"queries", "queries", kPurple,
                                  [](SpreadSeries& spread, double x, const HeadGeometry& head) {
                                    add_norms(spread, x, head.query_norms);
                                  }}},
                                {"norm", ""});
  figure.name = "key-norms";
  figure.title = "Norms of keys and queries";
  return figure;
}

}  // namespace keyscope::figures
