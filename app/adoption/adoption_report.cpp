#include "app/adoption/adoption_figures.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "app/figures/policy_look.hpp"
#include "app/figures/spread.hpp"
#include "app/results/prompts.hpp"

namespace keyscope::adoption {
namespace {

using figures::Figure;
using figures::LineSeries;
using figures::Panel;
using figures::SpreadSeries;

constexpr float kMarkSize = 6;

// What is drawn of a candidate: a middle between two ends, none of them finite where there is nothing.
struct Bar {
  double low = 0, middle = 0, high = 0;
};

std::vector<std::string> policies_of(const Adoption& adoption) {
  std::vector<std::string> names;
  for (const Candidate& candidate : adoption.candidates)
    if (std::ranges::find(names, candidate.policy) == names.end()) names.push_back(candidate.policy);
  return names;
}

// A horizontal line across the panel.
LineSeries level(std::string id, std::string label, double y, bool dashed) {
  LineSeries line;
  line.id = std::move(id);
  line.label = std::move(label);
  line.colour = figures::kBlack;
  line.dashed = dashed;
  line.x = {0, 100};
  line.y = {static_cast<float>(y), static_cast<float>(y)};
  return line;
}

// Policies at the same budget are drawn beside each other, or their bars would hide one another.
float dodge_of(std::size_t policy, std::size_t n_policies) {
  constexpr float kStep = 2.2F;  // points on the page
  return kStep * (static_cast<float>(policy) - (static_cast<float>(n_policies) - 1) / 2);
}

Panel memory_panel(const Adoption& adoption, std::string id, std::string title, figures::Axis y,
                   const std::function<Bar(std::size_t candidate)>& bar) {
  Panel panel;
  panel.id = std::move(id);
  panel.title = std::move(title);
  panel.x = {"memory, share of the full cache's", "%"};
  panel.y = std::move(y);
  figures::PolicyLooks looks;
  const std::vector<std::string> policies = policies_of(adoption);
  for (std::size_t p = 0; p < policies.size(); ++p) {
    const auto look = looks.next(policies[p]);
    SpreadSeries series(policies[p], policies[p], look.colour, look.marker, kMarkSize);
    LineSeries line;
    line.dodge_pt = dodge_of(p, policies.size());
    series.dodge(line.dodge_pt);
    line.id = policies[p] + "-line";
    line.colour = look.colour;
    std::vector<std::pair<double, double>> joined;
    for (std::size_t i = 0; i < adoption.candidates.size(); ++i) {
      if (adoption.candidates[i].policy != policies[p]) continue;
      const Bar one = bar(i);
      if (!std::isfinite(one.middle)) continue;
      const double x = 100 * adoption.candidates[i].memory_share;
      const bool spread = std::isfinite(one.low) && std::isfinite(one.high);
      series.add(x, spread ? one.low : one.middle, one.middle, spread ? one.high : one.middle);
      joined.emplace_back(x, one.middle);
    }
    std::ranges::sort(joined);
    for (const auto& [x, value] : joined) {
      line.x.push_back(static_cast<float>(x));
      line.y.push_back(static_cast<float>(value));
    }
    if (line.x.size() > 1) panel.lines.push_back(std::move(line));
    std::move(series).put_into(panel);
  }
  return panel;
}

Bar score_bar(const TaskOutcome& task, const analysis::BootstrapMean& mean) {
  if (task.kind == TaskKind::kLikelihood)
    return {std::exp(mean.low), std::exp(mean.mean), std::exp(mean.high)};
  return {100 * mean.low, 100 * mean.mean, 100 * mean.high};
}

// The worst score that is still within the tolerance, where all that is scored is affected.
double borne(const TaskOutcome& task, double tolerance) {
  const double most = tolerance_of(task.kind, tolerance);
  return task.kind == TaskKind::kLikelihood ? std::exp(task.full.mean + most) : 100 * (task.full.mean - most);
}

std::string caption_of(const Adoption& adoption) {
  return fmt::format(
      "{}: blocks of {}; bars are {:.0f} % bootstrap intervals over examples, not paired; policies at "
      "one budget stand side by side",
      adoption.model.name, adoption.block_size, 100 * adoption.bootstrap.confidence);
}

Figure figure_of(const Adoption& adoption, std::string name, std::string title, std::vector<Panel> panels) {
  Figure figure;
  figure.name = std::move(name);
  figure.title = std::move(title);
  figure.caption = caption_of(adoption);
  figure.columns = panels.size() > 1 ? 2 : 1;
  figure.view.runs = policies_of(adoption);
  for (std::size_t i = 1; i < panels.size(); ++i) panels[i].legend = false;
  figure.panels = std::move(panels);
  return figure;
}

Figure accuracy_figure(const Adoption& adoption) {
  std::vector<Panel> panels;
  for (const TaskOutcome& task : adoption.tasks) {
    const bool share = task.kind == TaskKind::kScore;
    panels.push_back(memory_panel(adoption, task.name, task.name, {task.metric, share ? "%" : ""},
                                  [&](std::size_t i) { return score_bar(task, task.scores[i]); }));
    auto& lines = panels.back().lines;
    lines.push_back(level("full", "full cache", score_bar(task, task.full).middle, false));
    lines.push_back(level("tolerance", "worst that is borne", borne(task, adoption.rule.tolerance), true));
  }
  Figure figure = figure_of(adoption, "accuracy-by-memory", "Scores, by memory", std::move(panels));
  if (!all_affected(adoption))
    figure.caption += "; scores of all examples, and what is borne where eviction affects all of them";
  return figure;
}

Figure latency_figure(const Adoption& adoption) {
  const double full = adoption.full_first_token_ms.median;
  Panel panel =
      memory_panel(adoption, "first-token", "", {"time to the first token, share of the full cache's", "%"},
                   [&](std::size_t i) {
                     const benchmarks::Spread& one = adoption.first_token_ms[i];
                     return Bar{100 * one.least / full, 100 * one.median / full, 100 * one.most / full};
                   });
  panel.lines.push_back(level("full", "full cache", 100, false));
  Figure figure = figure_of(adoption, "first-token-by-memory", "Time to the first token, by memory", {});
  figure.caption = fmt::format(
      "{}: a prompt of {} tokens, blocks of {}; median, least and most of {} repetitions",
      adoption.model.name, adoption.full_memory.p95_length, adoption.block_size, adoption.latency_repeat);
  figure.panels.push_back(std::move(panel));
  return figure;
}

Figure redundancy_figure(const Adoption& adoption) {
  const auto bar = [](const analysis::BootstrapMean& mean) { return Bar{mean.low, mean.mean, mean.high}; };
  Panel cosine = memory_panel(adoption, "mean-pairwise-cosine", "", {"mean cosine of two retained keys", ""},
                              [&](std::size_t i) { return bar(adoption.retained[i].mean_pairwise_cosine); });
  cosine.lines.push_back(level("full", "all keys", adoption.full_retained.mean_pairwise_cosine.mean, false));
  Panel mass = memory_panel(adoption, "attention-mass-kept", "", {"attention kept", "%"}, [&](std::size_t i) {
    const analysis::BootstrapMean& kept = adoption.retained[i].attention_mass_kept;
    return Bar{100 * kept.low, 100 * kept.mean, 100 * kept.high};
  });
  mass.lines.push_back(level("full-mass", "full cache", 100, false));  // so that both panels share their axis
  Figure figure = figure_of(adoption, "redundancy-by-memory", "What the cache holds, by memory",
                            {std::move(cosine), std::move(mass)});
  figure.caption = fmt::format(
      "{}: {} prompts, blocks of {}; bars are {:.0f} % bootstrap intervals over prompts", adoption.model.name,
      adoption.n_diagnosed, adoption.block_size, 100 * adoption.bootstrap.confidence);
  return figure;
}

}  // namespace

std::vector<std::string_view> adoption_figure_names() {
  return {"accuracy-by-memory", "first-token-by-memory", "redundancy-by-memory", "prompt-lengths"};
}

std::vector<Figure> adoption_figures(const Adoption& adoption) {
  std::vector<Figure> all{accuracy_figure(adoption)};
  if (adoption.latency_repeat > 0) all.push_back(latency_figure(adoption));
  if (adoption.n_diagnosed > 0) all.push_back(redundancy_figure(adoption));
  const auto lengths = validation::measure_lengths(adoption.prompt_lengths, {});
  all.push_back(validation::prompt_lengths_figure(lengths, "Of all tasks"));
  return all;
}

}  // namespace keyscope::adoption
