#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/figures/figure.hpp"
#include "app/figures/spread.hpp"
#include "app/grid/grid_report.hpp"
#include "base/text.hpp"

namespace keyscope::grid {

namespace {

using figures::Figure;
using figures::Marker;
using figures::Panel;
using figures::SpreadSeries;

constexpr float kMarkSize = 5;
constexpr float kDodge = 5;  // points on the page between what stands at one place

// How a setting is drawn: filled where a difference is claimed, open where it is not.
struct Look {
  figures::Colour colour;
  Marker filled, open;
};
constexpr std::array kLooks{
    Look{figures::kBlue, Marker::kDisc, Marker::kRing},
    Look{figures::kVermillion, Marker::kSquare, Marker::kOpenSquare},
    Look{figures::kGreen, Marker::kDiamond, Marker::kOpenDiamond},
    Look{figures::kPurple, Marker::kDownTriangle, Marker::kOpenDownTriangle},
};

float dodge_of(std::size_t at, std::size_t n) {
  return kDodge * (static_cast<float>(at) - (static_cast<float>(n) - 1) / 2);
}

// The values of a slot as an axis names them: scorers without their options, where that tells them apart.
std::vector<std::string> names_of(const GridPlan& plan, Slot slot) {
  std::vector<std::string> names = plan.values[slot];
  if (slot != Slot::kScorer) return names;
  for (std::string& name : names) name.resize(std::min(name.find(':'), name.size()));
  const std::set<std::string> different(names.begin(), names.end());
  return different.size() == names.size() ? names : plan.values[slot];
}

void add(SpreadSeries& series, std::size_t x, const analysis::BootstrapMean& points) {
  const bool spread = std::isfinite(points.low);
  series.add(static_cast<double>(x), spread ? points.low : points.mean, points.mean,
             spread ? points.high : points.mean);
}

// Where nothing differs.
void add_zero(Panel& panel) {
  figures::LineSeries line;
  line.id = "zero";
  line.colour = figures::kGrey;
  line.dashed = true;
  line.x = {-0.5F, static_cast<float>(panel.x.categories.size()) - 0.5F};
  line.y = {0, 0};
  panel.lines.push_back(std::move(line));
}

Panel slot_panel(const GridFindings& findings, Slot slot, std::size_t task, bool at_base) {
  const GridScores& scores = findings.scores;
  const std::vector<std::string> values = names_of(scores.plan, slot);
  Panel panel;
  panel.id = fmt::format("{}_{}", scores.tasks[task].task, at_base ? "base" : "mean");
  panel.title = scores.tasks[task].task + (at_base ? "" : ", mean over what is crossed");
  panel.x = {"", ""};
  panel.y = {fmt::format("{} more than {}", scores.tasks[task].metric, values[scores.plan.base[slot]]),
             "points"};
  std::vector<std::size_t> places(values.size());
  for (std::size_t value = 0; value < values.size(); ++value) {
    places[value] = panel.x.categories.size();
    if (value != scores.plan.base[slot]) panel.x.categories.push_back(values[value]);
  }
  add_zero(panel);
  for (std::size_t k = 0; k < scores.settings.size(); ++k) {
    const Look& look = kLooks[k % kLooks.size()];
    const std::string& label = scores.settings[k].label;
    SpreadSeries claimed(label + "_claimed", fmt::format("N = {}, p < 0.05", label), look.colour, look.filled,
                         kMarkSize);
    SpreadSeries open(label, "N = " + label, look.colour, look.open, kMarkSize);
    for (const GridDifference& found : findings.differences)
      if (found.task == task && found.setting == k && found.slot == slot && (found.n_pairs == 1) == at_base)
        add(found.test.adjusted_p < 0.05 ? claimed : open, places[found.value], found.points);
    for (SpreadSeries* series : {&claimed, &open}) {
      series->dodge(dodge_of(k, scores.settings.size()));
      std::move(*series).put_into(panel);
    }
  }
  return panel;
}

std::string caption_of(const GridFindings& findings, const std::string& model_name) {
  std::string text = model_name + ":";
  for (const TaskScores& task : findings.scores.tasks)
    text += fmt::format("{} {} examples of {}", &task == &findings.scores.tasks.front() ? "" : ",",
                        task.n_examples, task.task);
  std::vector<std::int64_t> blocks;
  for (const GridSetting& setting : findings.scores.settings)
    if (blocks.empty() || blocks.back() != setting.block) blocks.push_back(setting.block);
  return text + fmt::format("; B = {}; bars are 95 % bootstrap intervals over examples, paired",
                            fmt::join(blocks, ", "));
}

Figure slot_figure(const GridFindings& findings, Slot slot, const std::string& model_name) {
  const GridPlan& plan = findings.scores.plan;
  const bool has_means = std::ranges::any_of(findings.differences, [&](const GridDifference& found) {
    return found.slot == slot && found.n_pairs > 1;
  });
  Figure figure;
  figure.name = fmt::format("grid-{}", slot_name(slot));
  figure.title = fmt::format("What the {} changes", slot_words(slot));
  figure.caption = fmt::format("{}; filled: p < 0.05 among all {} differences. Base: {}. Of the slot: {}.",
                               caption_of(findings, model_name), findings.differences.size(),
                               plan.methods.front().policy, fmt::join(plan.values[slot], ", "));
  figure.columns = has_means ? 2 : static_cast<int>(std::min<std::size_t>(2, findings.scores.tasks.size()));
  figure.shared_ranges = true;
  for (std::size_t task = 0; task < findings.scores.tasks.size(); ++task)
    for (const bool at_base : {true, false})
      if (at_base || has_means) figure.panels.push_back(slot_panel(findings, slot, task, at_base));
  return figure;
}

// Every scorer's lead and its parts, and their mean.
Panel lead_panel(const GridFindings& findings, std::optional<std::size_t> task,
                 std::optional<std::size_t> setting) {
  const GridScores& scores = findings.scores;
  Panel panel;
  panel.id = fmt::format("{}_{}", task ? scores.tasks[*task].task : "all",
                         setting ? scores.settings[*setting].label : "all");
  panel.title = task                      ? scores.tasks[*task].task
                : scores.tasks.size() > 1 ? "all tasks"
                                          : scores.tasks[0].task;
  if (setting) panel.title += fmt::format(", N = {}", scores.settings[*setting].label);
  panel.y = {"lead, and its parts", "points"};
  const std::vector<std::string> scorers = names_of(scores.plan, Slot::kScorer);
  SpreadSeries lead("lead", fmt::format("lead over {} without protection", scorers[*scores.plan.reference]),
                    figures::kBlack, Marker::kDisc, kMarkSize);
  SpreadSeries score("score", "of it score", figures::kVermillion, Marker::kSquare, kMarkSize);
  SpreadSeries guarded("protection", "of it protection", figures::kBlue, Marker::kDiamond, kMarkSize);
  const auto add_place = [&](const LeadParts& found, std::string name) {
    add(lead, panel.x.categories.size(), found.lead);
    add(score, panel.x.categories.size(), found.score);
    add(guarded, panel.x.categories.size(), found.protection_part);
    panel.x.categories.push_back(std::move(name));
  };
  const auto is_of = [&](const LeadParts& found) {
    return found.task == task && found.setting == setting && !found.protection;
  };
  for (const LeadParts& found : findings.parts)
    if (is_of(found) && found.scorer) add_place(found, scorers[*found.scorer]);
  for (const LeadParts& found : findings.parts)
    if (is_of(found) && !found.scorer) add_place(found, "mean");
  add_zero(panel);
  std::size_t place = 0;
  for (SpreadSeries* series : {&lead, &score, &guarded}) {
    series->dodge(dodge_of(place++, 3));
    std::move(*series).put_into(panel);
  }
  return panel;
}

Figure lead_figure(const GridFindings& findings, const std::string& model_name) {
  const GridScores& scores = findings.scores;
  const GridPlan& plan = scores.plan;
  std::vector<std::string> protections = plan.values[Slot::kProtection];
  protections.erase(protections.begin() + static_cast<std::ptrdiff_t>(*plan.unprotected));
  Figure figure;
  figure.name = "grid-lead";
  figure.title = "How much of a policy's lead is its score, how much its protection";
  figure.caption = fmt::format("{}. Scorers: {}. Protection: mean over {}.", caption_of(findings, model_name),
                               fmt::join(plan.values[Slot::kScorer], ", "), fmt::join(protections, ", "));
  const std::size_t n_settings = scores.settings.size(), n_tasks = scores.tasks.size();
  figure.columns = static_cast<int>(std::min<std::size_t>(2, n_settings));
  figure.shared_ranges = true;
  using Choice = std::optional<std::size_t>;
  for (std::size_t t = 0; t < (n_tasks > 1 ? n_tasks + 1 : 1); ++t)
    for (std::size_t k = 0; k < n_settings; ++k)
      figure.panels.push_back(
          lead_panel(findings, t == 0 ? Choice() : Choice(t - 1), n_settings > 1 ? Choice(k) : Choice()));
  return figure;
}

}  // namespace

std::vector<Figure> grid_figures(const GridFindings& findings, const std::string& model_name) {
  std::vector<Figure> all;
  if (!findings.parts.empty()) all.push_back(lead_figure(findings, model_name));
  for (const Slot slot : kSlots)
    if (findings.scores.plan.values[slot].size() > 1) all.push_back(slot_figure(findings, slot, model_name));
  return all;
}

std::vector<std::string_view> grid_figure_names() {
  return {"grid-lead", "grid-scorer", "grid-protect", "grid-granularity", "grid-split"};
}

}  // namespace keyscope::grid
