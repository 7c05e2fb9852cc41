#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "analysis/rank_correlation.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/figures/head_measure.hpp"
#include "app/figures/labels.hpp"
#include "app/figures/spread.hpp"
#include "app/measures/head_measures.hpp"
#include "app/measures/measured_heads.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::figures {

using measures::HeadMeasures, measures::MeasuredHeads, measures::Moment;

namespace {

using measures::HeadSelection;
using recording::RecordingInfo;

// A measure between -1 and 1.
struct MappedMeasure {
  std::string_view figure;  // the figure's name
  const char* title;
  const char* label;  // of the colour scale
  std::optional<double> HeadMeasures::*value;
};

constexpr std::array kMappedMeasures{
    MappedMeasure{"mean-key-query-cosine", "Mean key against mean query", "cos(mean key, mean query)",
                  &HeadMeasures::key_query_mean_cosine},
    MappedMeasure{"top-key-query-cosine", "Most distinct key against mean query",
                  "cos(key of the highest KeyDiff score, mean query)", &HeadMeasures::top_key_query_cosine},
};

// Of every head at the end of a run's prompt.
std::span<const HeadMeasures> with_part(const MeasuredHeads& heads, measures::Part part, int run) {
  const Moment moment{run};
  return heads.with(part, {&moment, 1}).front();
}

//   values: in order of layer and KV head
Heatmap head_heatmap(const RecordingInfo& info, const std::vector<std::optional<double>>& values) {
  const std::vector<int> layers = info.all_layers();
  const int first = layers.front(), last = layers.back(), n_kv_heads = info.model.n_kv_heads;
  Heatmap heatmap;
  heatmap.values =
      RowMatrixF::Constant(last - first + 1, n_kv_heads, std::numeric_limits<float>::quiet_NaN());
  std::size_t at = 0;
  for (const auto& [layer, kv_head] : info.all_heads())
    if (const auto& value = values[at++]) heatmap.values(layer - first, kv_head) = static_cast<float>(*value);
  heatmap.x_first = -0.5;  // a cell's middle is its head's number
  heatmap.x_end = n_kv_heads - 0.5;
  heatmap.y_first = first - 0.5;
  heatmap.y_end = last + 0.5;
  return heatmap;
}

// For a caption: what stands before it ends without a full stop.
std::string keyless_sentence(const RecordingInfo& info) {
  const std::string keyless = describe_keyless(info);
  return keyless.empty() ? "" : ". " + keyless;
}

Panel head_panel(const RecordingInfo& info, Heatmap heatmap) {
  Panel panel;
  panel.note = describe_keyless(info);
  if (!info.model.layer_heads.empty())
    panel.note += fmt::format("{}layers have {}", panel.note.empty() ? "" : "; ", describe_kv_heads(info));
  panel.id = heatmap.id;
  panel.x.label = "KV head";
  panel.y.label = "layer";
  panel.heatmap = std::move(heatmap);
  return panel;
}

}  // namespace

Figure key_query_cosine_figure(const MeasuredHeads& heads, const FigureRequest& request) {
  const auto info = heads.recording().info();
  const MappedMeasure& measure = *std::ranges::find(kMappedMeasures, request.name, &MappedMeasure::figure);
  const int run = only_run(*info, request);
  require_run(*info, run);
  require_keys(*info);
  const auto& about = info->runs[run];
  std::vector<std::optional<double>> values;
  for (const HeadMeasures& head : with_part(heads, measures::part_of(measure.value), run))
    values.push_back(head.*measure.value);

  Heatmap heatmap = head_heatmap(*info, values);
  heatmap.id = measure.figure;
  heatmap.long_name = measure.label;
  heatmap.colour_map = ColourMap::kDiverging;
  heatmap.low = -1;
  heatmap.high = 1;
  heatmap.decimals = 2;  // which also say the sign where colours are printed in grey
  Figure figure;
  figure.name = measure.figure;
  figure.title = measure.title;
  figure.caption = fmt::format("{}. Over all prompt tokens, queries of the whole group together.",
                               describe_run(*info, about));
  figure.view.runs = {about.plan.name};
  figure.panels.push_back(head_panel(*info, std::move(heatmap)));
  return figure;
}

namespace {

// In order of layer and KV head.
//   reference: -1: none
std::vector<std::optional<double>> measured_values(const MeasuredHeads& heads, int run, int reference,
                                                   const HeadMeasure& measure) {
  std::vector<Moment> moments{{run}};
  if (reference >= 0) moments.push_back({reference});
  const auto runs = heads.with(part_of_measure(measure), moments);
  std::vector<std::optional<double>> values;
  for (std::size_t i = 0; i < runs[0].size(); ++i)
    values.push_back(head_value(measure, runs[0][i], reference < 0 ? nullptr : &runs[1][i]));
  return values;
}

std::string missing_note(const RecordingInfo& info, const HeadMeasure& measure,
                         const std::vector<std::optional<double>>& values) {
  std::size_t n_missing = 0;
  int kv_head = -1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i]) continue;
    if (n_missing++ == 0) kv_head = info.all_heads()[i].kv_head;
  }
  if (n_missing == 0) return "";
  return fmt::format("{} of {} heads have no value: {}", n_missing, values.size(),
                     missing_reason(info, measure, kv_head));
}

}  // namespace

Figure head_map_figure(const MeasuredHeads& heads, const FigureRequest& request) {
  const auto info = heads.recording().info();
  const int asked = only_run(*info, request);
  const int other = request.reference ? find_run(*info, *request.reference) : -1;
  const HeadMeasure& measure =
      request.measure ? find_head_measure(*request.measure) : head_measures().front();
  if (measure.of_hypothesis() && other >= 0)
    throw UsageError(fmt::format(
        "the measure {} speaks of the model, not of what a run keeps; leave out --reference", measure.id));
  require_run(*info, asked);
  const auto [index, biased] = measure.of_hypothesis() ? measures::hypothesis_run(*info, asked)
                                                       : measures::HypothesisRun{asked, false};
  if (measure.of_two_runs() && other < 0)
    throw UsageError(
        fmt::format("the measure {} is of two runs; name the other one by --reference", measure.id));
  const recording::RunInfo& run = info->runs[index];
  const std::string reference = other < 0 ? "" : info->runs[other].plan.name;
  const auto values = measured_values(heads, index, other, measure);
  const MeasureScale scale = measure_scale(measure, values, run.plan.name, reference);

  Heatmap heatmap = head_heatmap(*info, values);
  heatmap.id = measure.id;
  heatmap.long_name = scale.name;
  heatmap.units = measure.unit;
  heatmap.colour_map = scale.colour_map;
  heatmap.low = static_cast<float>(scale.low);
  heatmap.high = static_cast<float>(scale.high);
  heatmap.decimals = measure.decimals;
  Panel panel = head_panel(*info, std::move(heatmap));
  const std::string note =
      biased ? std::string(measures::kBiasedByEviction) : missing_note(*info, measure, values);
  if (!note.empty()) panel.note += (panel.note.empty() ? "" : "; ") + note;

  Figure figure;
  figure.name = "head-map";
  figure.title = fmt::format("{}, {}", measure.label, compared_runs(measure, run.plan.name, reference));
  figure.caption =
      fmt::format("{}. At the end of the prompt: {}.", describe_run(*info, run), measure.meaning);
  figure.view.runs = {run.plan.name};
  if (!reference.empty()) figure.view.runs.push_back(reference);
  figure.panels.push_back(std::move(panel));
  return figure;
}

namespace {

using measures::HeadProfile;

constexpr double kLayerWidth = 0.8;  // of the distance between two layers, for all of a layer's heads

// What is drawn of a head, for its keys or for its queries.
struct Side {
  const char* id;
  const char* title;
  Colour colour;
  analysis::Percentiles HeadProfile::*spread;
};

double place_of(const HeadProfile& profile, int n_kv_heads) {
  const double middle = (profile.kv_head + 0.5) / n_kv_heads - 0.5;
  return profile.layer + kLayerWidth * middle;
}

float mark_size(const RecordingInfo& info) { return info.all_heads().size() > 64 ? 3.5F : 6.0F; }

Panel panel_of(const RecordingInfo& info, const std::vector<HeadProfile>& profiles, const Side& side,
               const Axis& y) {
  SpreadSeries spread(side.id, fmt::format("{}: median, 5 to 95 %", side.title), side.colour, Marker::kDisc,
                      mark_size(info));
  for (const HeadProfile& profile : profiles)
    spread.add(place_of(profile, info.model.heads(profile.layer).n_kv_heads), profile.*side.spread);
  Panel panel;
  panel.id = side.id;
  panel.title = side.title;
  panel.x = {"layer", "", {}, true};
  panel.y = y;
  panel.note = describe_kv_heads(info) + " a layer, from left to right";
  std::move(spread).put_into(panel);
  return panel;
}

Figure spread_figure(const MeasuredHeads& heads, const FigureRequest& request, const std::vector<Side>& sides,
                     const Axis& y) {
  const auto info = heads.recording().info();
  const int run = only_run(*info, request);
  require_run(*info, run);
  require_keys(*info);
  const auto& about = info->runs[run];
  const auto& profiles = heads.profiles(run);
  Figure figure;
  for (const Side& side : sides)
    if (&side == &sides.front() || info->queries) figure.panels.push_back(panel_of(*info, profiles, side, y));
  figure.caption = describe_run(*info, about) + keyless_sentence(*info);
  figure.view.runs = {about.plan.name};
  return figure;
}

}  // namespace

Figure mean_cosines_figure(const MeasuredHeads& heads, const FigureRequest& request) {
  Figure figure =
      spread_figure(heads, request,
                    {{"keys", "keys against the mean key", kBlue, &HeadProfile::key_cosines},
                     {"queries", "queries against the mean query", kPurple, &HeadProfile::query_cosines}},
                    {"cosine", ""});
  figure.name = "mean-cosines";
  figure.title = "Keys and queries against their means";
  figure.shared_ranges = true;
  figure.columns = 1;
  return figure;
}

Figure norms_figure(const MeasuredHeads& heads, const FigureRequest& request) {
  Figure figure = spread_figure(heads, request,
                                {{"keys", "keys", kBlue, &HeadProfile::key_norms},
                                 {"queries", "queries", kPurple, &HeadProfile::query_norms}},
                                {"norm", ""});
  figure.name = "key-norms";
  figure.title = "Norms of keys and queries";
  return figure;
}

namespace {

struct Reading {
  const char* id;
  const char* label;
  Colour colour;
  Marker marker;
  std::optional<double> HeadMeasures::*value;
};

constexpr std::array kReadings{
    Reading{"per_query", "attention per query that could see the key", kBlue, Marker::kDisc,
            &HeadMeasures::spearman},
    Reading{"total", "all attention received", kOrange, Marker::kSquare, &HeadMeasures::spearman_total},
    Reading{"given_position", "per query, position held fixed", kGreen, Marker::kTriangle,
            &HeadMeasures::spearman_given_position}};
constexpr double kReadingOffset = 0.18;  // readings of one layer stand side by side

void add_layer(SpreadSeries& series, double x, const std::vector<double>& values) {
  if (values.empty()) return;
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double deviation =
      values.size() > 1 ? std::sqrt(squares / static_cast<double>(values.size() - 1)) : 0;
  series.add(x, mean - deviation, mean, mean + deviation);
}

LineSeries zero_line(const recording::RecordingInfo& info) {
  LineSeries line;
  line.id = "zero";
  line.colour = kGrey;
  line.dashed = true;
  line.x = {static_cast<float>(info.layers.front()) - 0.5F, static_cast<float>(info.layers.back()) + 0.5F};
  line.y = {0, 0};
  return line;
}

}  // namespace

int run_of_figure(const recording::RecordingInfo& info, const FigureRequest& request) {
  const int asked = only_run(info, request);
  const bool of_hypothesis = request.name == "rank-correlation" ||
                             (request.name == "head-map" &&
                              (!request.measure || find_head_measure(*request.measure).of_hypothesis()));
  return of_hypothesis ? measures::hypothesis_run(info, asked).run : asked;
}

Figure rank_correlation_figure(const MeasuredHeads& heads, const FigureRequest& request) {
  const auto info = heads.recording().info();
  const int asked = only_run(*info, request);
  require_run(*info, asked);
  require_keys(*info);
  const auto [run, biased] = measures::hypothesis_run(*info, asked);
  const auto& about = info->runs[run];
  const auto measured = with_part(heads, measures::Part::kAgreement, run);

  Panel panel;
  panel.id = "rank_correlation";
  panel.x = {"layer", "", {}, true};
  panel.y.label = "Spearman's ρ";
  panel.note = fmt::format("mean over {}, one standard deviation to either side", describe_kv_heads(*info));
  panel.lines.push_back(zero_line(*info));
  for (std::size_t r = 0; r < kReadings.size(); ++r) {
    const Reading& reading = kReadings.at(r);
    std::map<int, std::vector<double>> layers;
    for (const HeadMeasures& head : measured)
      if (const auto& value = head.*reading.value) layers[head.layer].push_back(*value);
    SpreadSeries series(reading.id, reading.label, reading.colour, reading.marker, 5);
    for (const auto& [layer, values] : layers)
      add_layer(series, layer + kReadingOffset * (double(r) - 1), values);
    std::move(series).put_into(panel);
  }
  Figure figure;
  figure.name = "rank-correlation";
  figure.title = "Do keys unlike the rest receive the most attention?";
  figure.caption = describe_run(*info, about) + keyless_sentence(*info);
  if (biased) figure.caption += fmt::format(". {}", measures::kBiasedByEviction);
  figure.view.runs = {about.plan.name};
  figure.panels.push_back(std::move(panel));
  return figure;
}

namespace {

using measures::ScoreAgreement;
using measures::ScoreAttention;
using recording::RunInfo;

PointSeries series_of(const char* id, Colour colour, Marker marker, std::size_t n_tokens) {
  PointSeries series;
  series.id = series.label = id;
  series.colour = colour;
  series.marker = marker;
  series.size_px = n_tokens <= 500 ? 5.0F : (n_tokens <= 4000 ? 3.5F : 2.5F);
  return series;
}

struct Coordinates {
  std::vector<double> x, y;  // y is not finite where there is nothing to draw
};

Coordinates place_tokens(const ScoreAttention& pairs, bool ranks) {
  if (ranks)
    return {analysis::average_ranks(pairs.seen_score), analysis::average_ranks(pairs.attention_per_query)};
  Coordinates places{pairs.seen_score, pairs.attention_per_query};
  for (double& attention : places.y) attention = std::log10(attention);
  return places;
}

// Evicted rings first, so that the retained discs lie on top of them.
void add_tokens(Panel& panel, const ScoreAttention& pairs, const Coordinates& places,
                const std::vector<std::int32_t>& retained) {
  PointSeries evicted = series_of("evicted", kOrange, Marker::kRing, pairs.seen.size());
  PointSeries kept = series_of("retained", kBlue, Marker::kDisc, pairs.seen.size());
  for (std::size_t i = 0; i < pairs.seen.size(); ++i) {
    if (!std::isfinite(places.y[i])) continue;
    PointSeries& series = std::ranges::binary_search(retained, pairs.seen[i]) ? kept : evicted;
    series.x.push_back(static_cast<float>(places.x[i]));
    series.y.push_back(static_cast<float>(places.y[i]));
    series.token.push_back(pairs.seen[i]);
  }
  if (evicted.x.empty()) {  // one kind of point needs no legend
    evicted.label.clear();
    kept.label.clear();
  }
  panel.points.push_back(std::move(evicted));
  panel.points.push_back(std::move(kept));
}

std::string number(const std::optional<double>& value) {
  return value ? format_signed(*value, 2) : "undefined";
}

std::string note_of(const Panel& panel, const ScoreAttention& pairs) {
  const std::size_t drawn = panel.points[0].x.size() + panel.points[1].x.size();
  if (drawn == pairs.seen.size()) return "";
  return fmt::format("{} of {} keys received attention", format_count(static_cast<long long>(drawn)),
                     format_count(static_cast<long long>(pairs.seen.size())));
}

}  // namespace

Figure score_attention_figure(const recording::Recording& recording, const FigureRequest& request) {
  const auto info = recording.info();
  const HeadSelection head = chosen_head(*info, request);
  require_keys(*info);
  const RunInfo& run = info->runs[head.run];
  const std::int64_t block = resolve_block(run, -1);
  // Attention is the model's own, of all tokens to all, wherever it was recorded.
  const auto [source, biased] = measures::hypothesis_run(*info, head.run);
  const ScoreAttention pairs = measures::read_score_attention(recording, {source, head.layer, head.kv_head});
  const ScoreAgreement agreement = measures::correlate(pairs);
  const auto evicted_at = recording.trace(head.run, head.layer, head.kv_head).evicted_at;

  Panel panel;
  panel.id = "score_attention";
  panel.x.label = request.ranks ? "rank of KeyDiff's score" : "KeyDiff's score −cos(key, mean key)";
  panel.y.label =
      request.ranks ? "rank of attention per query" : "log₁₀ of attention per query that could see the key";
  add_tokens(panel, pairs, place_tokens(pairs, request.ranks),
             recording::retained_positions(evicted_at, tokens_seen_by(run, block), block));
  panel.note = request.small ? fmt::format("ρ {} ({})", number(agreement.spearman),
                                           number(agreement.spearman_given_position))
                             : note_of(panel, pairs);

  Figure figure;
  figure.name = "score-attention";
  figure.title =
      fmt::format("Score against attention, layer {}, KV head {}: {}ρ = {}, with position held fixed {}",
                  head.layer, head.kv_head, biased ? "biased " : "", number(agreement.spearman),
                  number(agreement.spearman_given_position));
  figure.view = {{run.plan.name}, head.layer, head.kv_head, -1, -1, 0};
  figure.caption = fmt::format("{}. Every prompt token that a query could see; ρ is Spearman's.",
                               describe_run(*info, run));
  if (source != head.run)
    figure.caption += fmt::format(" Scores and attention are those of {}.", info->runs[source].plan.name);
  if (biased) figure.caption += fmt::format(" {}.", measures::kBiasedByEviction);
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace keyscope::figures
