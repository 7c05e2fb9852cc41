#include "app/evaluation/anatomy_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/figures/labels.hpp"
#include "app/figures/spread.hpp"
#include "base/json.hpp"

namespace keyscope::evaluation {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

double mean_of(const std::vector<double>& values) {
  if (values.empty()) return kNothing;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The score that a task names first is what it is about.
const std::string& first_score(const ScoreTable& table) { return table.result(0, 0).scores.front().first; }

// The values of those results that have one.
template <typename Value>
std::vector<double> values_of(const ScoreTable& table, std::size_t point, const Value& value) {
  std::vector<double> values;
  for (std::size_t example = 0; example < table.n_examples(); ++example)
    if (const std::optional<double> found = value(table.result(example, point).anatomy))
      values.push_back(*found);
  return values;
}

void count(AnswerCounts& counts, const Anatomy& anatomy) {
  ++counts.n;
  if (anatomy.empty) ++counts.empty;
  if (!anatomy.evidence || anatomy.evidence->layers.empty()) return;
  const EvidenceFate& fate = *anatomy.evidence;
  if (fate.gone_everywhere.value_or(0) > 0)
    ++counts.gone;
  else
    ++(fate.share(&LayerEvidence::kept) < 1 ? counts.part : counts.whole);
}

// Of every layer that some result reaches the evidence in.
std::vector<std::vector<double>> kept_by_layer(const ScoreTable& table, std::size_t point) {
  std::vector<std::vector<double>> kept;
  for (std::size_t example = 0; example < table.n_examples(); ++example) {
    const auto& evidence = table.result(example, point).anatomy.evidence;
    if (!evidence) continue;
    for (const LayerEvidence& layer : evidence->layers) {
      kept.resize(std::max(kept.size(), static_cast<std::size_t>(layer.layer) + 1));
      kept[layer.layer].push_back(layer.rows_kept);
    }
  }
  return kept;
}

AnatomySummary summary_of(const ScoreTable& table, std::size_t point, std::uint64_t seed) {
  AnatomySummary summary;
  summary.point = point;
  summary.n = static_cast<std::int64_t>(table.n_examples());
  const std::string& score = first_score(table);
  const std::size_t full = table.reference(point);
  std::vector<double> scores, shares;
  for (std::size_t example = 0; example < table.n_examples(); ++example) {
    const ExampleResult& result = table.result(example, point);
    scores.push_back(result.score(score));
    shares.push_back(table.grid()[point].evicts()
                         ? static_cast<double>(result.budget) / static_cast<double>(result.n_prompt)
                         : 1);
    summary.n_known += result.anatomy.evidence && !result.anatomy.evidence->layers.empty() ? 1 : 0;
    summary.n_empty += result.anatomy.empty ? 1 : 0;
    const bool worse = scores.back() < table.result(example, full).score(score);
    count(worse ? summary.worse : summary.others, result.anatomy);
  }
  summary.score = bootstrap_score(scores, seed);
  summary.budget_share = mean_of(shares);
  const auto mean = [&](const auto& value) {
    const std::vector<double> values = values_of(table, point, value);
    return values.empty() ? ScoreMean{kNothing, kNothing, kNothing} : bootstrap_score(values, seed);
  };
  summary.gone_everywhere = mean([](const Anatomy& anatomy) {
    return anatomy.evidence ? anatomy.evidence->gone_everywhere : std::nullopt;
  });
  summary.question_kept = mean(
      [](const Anatomy& anatomy) { return anatomy.question ? anatomy.question->rows_kept : std::nullopt; });
  const auto share = [&](std::int64_t LayerEvidence::*part) {
    return mean_of(values_of(table, point, [part](const Anatomy& anatomy) {
      return anatomy.evidence ? anatomy.evidence->share(part) : std::nullopt;
    }));
  };
  summary.kept = share(&LayerEvidence::kept);
  summary.torn = share(&LayerEvidence::torn);
  summary.lost = share(&LayerEvidence::lost);
  summary.layer_kept = kept_by_layer(table, point);
  return summary;
}

nlohmann::ordered_json counts_json(const AnswerCounts& counts) {
  return {{"n", counts.n},
          {"evidence_gone", counts.gone},
          {"evidence_in_part", counts.part},
          {"evidence_whole", counts.whole},
          {"empty", counts.empty}};
}

std::int64_t mean_rows(const ScoreTable& table, std::size_t point) {
  std::vector<std::size_t> all(table.n_examples());
  std::iota(all.begin(), all.end(), 0);
  return table.mean_budget(point, all);
}

}  // namespace

std::vector<AnatomySummary> anatomy_summaries(const ScoreTable& table, std::uint64_t seed) {
  std::vector<AnatomySummary> summaries;
  for (std::size_t point = 0; table.n_examples() > 0 && point < table.grid().size(); ++point)
    summaries.push_back(summary_of(table, point, seed));
  return summaries;
}

nlohmann::ordered_json anatomies_json(const ScoreTable& table, std::span<const AnatomySummary> summaries) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const AnatomySummary& summary : summaries) {
    auto row = point_json(table.grid()[summary.point], mean_rows(table, summary.point));
    row["n"] = summary.n;
    row["n_known"] = summary.n_known;
    row["budget_share"] = summary.budget_share;
    row["score_name"] = first_score(table);
    add_score(row, "score", summary.score);
    add_score(row, "global_eviction_ratio", summary.gone_everywhere);
    row["evidence_kept"] = json_number(summary.kept);
    row["evidence_torn"] = json_number(summary.torn);
    row["evidence_lost"] = json_number(summary.lost);
    add_score(row, "question_rows_kept", summary.question_kept);
    row["empty_answers"] = summary.n_empty;
    row["worse_than_full"] = counts_json(summary.worse);
    row["not_worse"] = counts_json(summary.others);
    row["evidence_rows_kept_by_layer"] = nlohmann::ordered_json::array();
    for (const auto& layer : summary.layer_kept)
      row["evidence_rows_kept_by_layer"].push_back(json_number(mean_of(layer)));
    json.push_back(std::move(row));
  }
  return json;
}

namespace {

std::string share_cell(double share) {
  return std::isnan(share) ? fmt::format("{:>6}", "–") : fmt::format("{:>6.2f}", share);
}

std::string counts_cell(const AnswerCounts& counts, bool known) {
  std::string text = fmt::format("{:>6}", counts.n);
  for (const std::int64_t n : {counts.gone, counts.part, counts.whole})
    text += known ? fmt::format(" {:>5}", n) : fmt::format(" {:>5}", "–");
  return text + fmt::format(" {:>5}", counts.empty);
}

}  // namespace

std::string anatomy_table(const ScoreTable& table, std::span<const AnatomySummary> summaries) {
  std::size_t width = 6;
  bool evicts = false;
  for (const GridPoint& point : table.grid()) {
    width = std::max(width, point.policy.size());
    evicts = evicts || point.evicts();
  }
  if (!evicts || summaries.empty()) return {};
  constexpr std::string_view kCounts = "     n  gone  part whole empty";  // as counts_cell has them
  std::string text = fmt::format(
      "\nWhat was left once the prompt was read: the share of the answer's rows that are in no cache; of the "
      "KV\n"
      "heads, those that have the evidence whole, torn or not at all; the share of the question's rows that "
      "are\n"
      "there; and the answers by it.\n"
      "{:<{}}  {:>19}  {:>7}  {:>20}  {:>8}  {:<30}  {}\n"
      "{:<{}}  {:>6} {:>5} {:>6}  {:>7}  {:>6} {:>6} {:>6}  {:>8}  {}  {}\n",
      "", width, "", "answer", "KV heads' evidence", "question", "worse than with the full cache", "others",
      "policy", width, "budget", "block", "K/T", "gone", "whole", "torn", "lost", "kept", kCounts, kCounts);
  for (const AnatomySummary& summary : summaries) {
    const GridPoint& point = table.grid()[summary.point];
    if (!point.evicts()) continue;
    const bool known = summary.n_known > 0;
    text += fmt::format("{:<{}}  {:>6} {:>5} {:>6.2f}  {:>7}  {} {} {}  {:>8}  {}  {}\n", point.policy, width,
                        point.budget_text, point.block, summary.budget_share,
                        share_cell(summary.gone_everywhere.mean), share_cell(summary.kept),
                        share_cell(summary.torn), share_cell(summary.lost),
                        share_cell(summary.question_kept.mean), counts_cell(summary.worse, known),
                        counts_cell(summary.others, known));
  }
  const std::int64_t n = summaries.front().n, n_known = summaries.front().n_known;
  if (n_known < n) text += fmt::format("The evidence is known of {} of {} examples.\n", n_known, n);
  return text;
}

namespace {

using figures::Figure;
using figures::LineSeries;
using figures::Panel;

constexpr float kStepPt = 2;  // between the policies at one place

// What one curve shows: a policy at all budgets, or at one.
struct Curve {
  std::string label;
  figures::PolicyLooks::Look look;
  std::vector<const AnatomySummary*> points;  // by K/T
};

// Of the policies with the first block size, the full cache last of each.
std::vector<Curve> curves_of(const ScoreTable& table, std::span<const AnatomySummary> summaries) {
  std::vector<Curve> curves;
  figures::PolicyLooks looks;
  const auto grid = table.grid();
  for (const AnatomySummary& summary : summaries) {
    const GridPoint& point = grid[summary.point];
    if (point.block != grid.front().block) continue;
    auto found = std::ranges::find(curves, point.policy, &Curve::label);
    if (found == curves.end())
      found = curves.insert(curves.end(), {point.policy, looks.next(point.spec.name), {}});
    found->points.push_back(&summary);
  }
  for (Curve& curve : curves)
    std::ranges::sort(curve.points, {}, [](const AnatomySummary* point) { return point->budget_share; });
  return curves;
}

// Against K/T; where every policy has one budget alone, policy by policy.
template <typename Value>
Panel by_budget(const std::vector<Curve>& curves, const std::string& id, const std::string& title,
                const std::string& label, const Value& value) {
  const bool one_budget =
      std::ranges::all_of(curves, [](const Curve& curve) { return curve.points.size() == 1; });
  Panel panel;
  panel.id = id;
  panel.title = title;
  panel.y = {label, ""};
  panel.x = {one_budget ? "policy" : "budget over prompt, K/T", ""};
  if (one_budget) panel.x.categories.resize(curves.size());  // the legend names them
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const Curve& curve = curves[i];
    const float dodge =
        one_budget ? 0 : kStepPt * (static_cast<float>(i) - static_cast<float>(curves.size() - 1) / 2);
    figures::MeanCurve means(curve.label, curve.look, dodge);
    for (const AnatomySummary* summary : curve.points) {
      const ScoreMean mean = value(*summary);
      means.add(one_budget ? static_cast<double>(i) : summary->budget_share, mean.low, mean.mean, mean.high);
    }
    std::move(means).put_into(panel);
  }
  return panel;
}

LineSeries line_of(const Curve& curve) {
  LineSeries line;
  line.id = line.label = curve.label;
  line.colour = curve.look.colour;
  return line;
}

Panel by_layer(const std::vector<Curve>& curves) {
  Panel panel;
  panel.id = "layers";
  panel.title = "evidence kept, by layer";
  panel.x = {"layer", ""};
  panel.x.counted = true;
  panel.y = {"share of rows", ""};
  for (const Curve& curve : curves) {
    LineSeries line = line_of(curve);
    line.marker = curve.look.marker;
    const auto& layers = curve.points.front()->layer_kept;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      if (layers[layer].empty()) continue;
      line.x.push_back(static_cast<float>(layer));
      line.y.push_back(static_cast<float>(mean_of(layers[layer])));
    }
    panel.lines.push_back(std::move(line));
  }
  return panel;
}

// Of the example with the longest prompt.
Panel over_time(const ScoreTable& table, const std::vector<Curve>& curves) {
  std::size_t longest = 0;
  for (std::size_t example = 1; example < table.n_examples(); ++example)
    if (table.result(example, 0).n_prompt > table.result(longest, 0).n_prompt) longest = example;
  Panel panel;
  panel.id = "cache";
  panel.title = "cache over the longest prompt";
  panel.x = {"tokens read", ""};
  panel.y = {"rows per KV head", ""};
  for (const Curve& curve : curves) {
    LineSeries line = line_of(curve);
    for (const capture::CacheSize& size : table.result(longest, curve.points.front()->point).anatomy.sizes) {
      line.x.push_back(static_cast<float>(size.n_read));
      line.y.push_back(static_cast<float>(size.rows));
    }
    panel.lines.push_back(std::move(line));
  }
  return panel;
}

}  // namespace

Figure anatomy_figure(const ScoreTable& table, std::span<const AnatomySummary> summaries,
                      const Settings& settings, const std::string& caption) {
  const std::vector<Curve> curves = curves_of(table, summaries);
  const bool known =
      std::ranges::any_of(summaries, [](const AnatomySummary& summary) { return summary.n_known > 0; });
  Figure figure;
  figure.name = settings.task + "-anatomy";
  figure.title = "What became of what the answers stand on";
  figure.columns = known ? 3 : 2;
  figure.panels.push_back(by_budget(curves, "score", first_score(table), "mean",
                                    [](const AnatomySummary& summary) { return summary.score; }));
  if (known) {
    figure.panels.push_back(by_budget(curves, "gone", "answer gone from every cache", "share of rows",
                                      [](const AnatomySummary& summary) { return summary.gone_everywhere; }));
    figure.panels.push_back(by_budget(curves, "question", "question kept", "share of rows",
                                      [](const AnatomySummary& summary) { return summary.question_kept; }));
  } else {
    figure.panels.push_back(
        by_budget(curves, "empty", "empty answers", "share", [](const AnatomySummary& summary) {
          const auto share = static_cast<double>(summary.n_empty) / static_cast<double>(summary.n);
          return ScoreMean{share, share, share};
        }));
  }
  if (known) figure.panels.push_back(by_layer(curves));
  figure.panels.push_back(over_time(table, curves));
  figure.caption = caption;
  if (settings.budgets.size() > 1)
    figure.caption += fmt::format(" {} at each policy's least budget.",
                                  known ? "Evidence by layer, and the cache:" : "The cache:");
  return figure;
}

}  // namespace keyscope::evaluation
