#include "app/sweep/study_figures.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "analysis/policies/registry.hpp"
#include "analysis/statistics.hpp"
#include "app/figures/labels.hpp"
#include "app/figures/spread.hpp"
#include "base/text.hpp"

namespace keyscope::sweep {

namespace {

using figures::Figure;
using figures::Panel;

constexpr float kMarkSize = 6;
constexpr double kApart = 0.06;        // between marks at one place of the axis
constexpr float kPast = 0.4F;          // how far the full cache's line goes beyond the first and last budget
constexpr const char* kFull = "none";  // the policy that evicts nothing

// A tenth of what a task's own report takes: a study may have a hundred thousand cells.
analysis::BootstrapMean mean_of(std::span<const double> values) {
  return analysis::bootstrap_mean(values, {.n_resamples = 1000});
}

bool evicts(const Sample& one) { return !one.budget.empty(); }

// Shares of a prompt from small to large, then numbers of rows.
std::vector<std::string> ordered_budgets(const std::set<std::string>& budgets) {
  std::vector<std::string> order(budgets.begin(), budgets.end());
  std::ranges::stable_sort(order, {}, [](const std::string& text) {
    const analysis::Budget budget = analysis::parse_budget(text);
    return std::pair(budget.rows > 0, budget.rows > 0 ? static_cast<double>(budget.rows) : budget.share);
  });
  return order;
}

std::string key_of(const std::string& policy, const std::string& budget) { return policy + '\n' + budget; }

std::string policy_name(const std::string& policy) { return policy.substr(0, policy.find(':')); }

// The samples of one panel.
struct Series {
  std::map<std::string, const std::vector<double>*> values;  // by key_of
  std::vector<std::string> policies;                         // that evict, in the study's order
};

Series series_of(std::span<const Sample* const> samples) {
  Series series;
  for (const Sample* one : samples) {
    series.values[key_of(one->policy, one->budget)] = &one->values;
    if (evicts(*one) && std::ranges::find(series.policies, one->policy) == series.policies.end())
      series.policies.push_back(one->policy);
  }
  return series;
}

void add_full_cache(const Series& series, std::size_t n_budgets, Panel& panel) {
  const auto found = series.values.find(key_of(kFull, ""));
  if (found == series.values.end()) return;
  const auto mean = static_cast<float>(mean_of(*found->second).mean);
  figures::LineSeries line;
  line.label = "full cache";
  line.id = kFull;
  line.colour = figures::policy_look(kFull).colour;
  line.dashed = true;
  line.x = {-kPast, static_cast<float>(n_budgets) - 1 + kPast};
  line.y = {mean, mean};
  panel.lines.push_back(std::move(line));
}

void add_policies(const Series& series, const std::vector<std::string>& budgets, Panel& panel) {
  figures::PolicyLooks looks;
  const auto n = static_cast<double>(series.policies.size());
  for (std::size_t i = 0; i < series.policies.size(); ++i) {
    const std::string& policy = series.policies[i];
    const auto look = looks.next(policy_name(policy));
    const double offset = kApart * (static_cast<double>(i) - (n - 1) / 2);
    figures::SpreadSeries marks(policy, policy, look.colour, look.marker, kMarkSize);
    figures::LineSeries curve;
    curve.id = policy + "_curve";
    curve.colour = look.colour;
    for (std::size_t place = 0; place < budgets.size(); ++place) {
      const auto found = series.values.find(key_of(policy, budgets[place]));
      if (found == series.values.end()) continue;  // missing, and shown as missing
      const analysis::BootstrapMean mean = mean_of(*found->second);
      const double x = static_cast<double>(place) + offset;
      marks.add(x, mean.low, mean.mean, mean.high);
      curve.x.push_back(static_cast<float>(x));
      curve.y.push_back(static_cast<float>(mean.mean));
    }
    panel.lines.push_back(std::move(curve));
    std::move(marks).put_into(panel);
  }
}

using Samples = std::vector<const Sample*>;

// In the order in which they first come.
template <typename Key>
std::vector<std::pair<Key, Samples>> grouped(const Samples& all, Key (*key_of)(const Sample&)) {
  std::vector<std::pair<Key, Samples>> groups;
  std::map<Key, std::size_t> places;
  for (const Sample* one : all) {
    const auto [place, is_new] = places.try_emplace(key_of(*one), groups.size());
    if (is_new) groups.emplace_back(place->first, Samples{});
    groups[place->second].second.push_back(one);
  }
  return groups;
}

std::vector<Panel> budget_panels(const Samples& all, const std::string& measure) {
  std::set<std::string> found;
  for (const Sample* one : all)
    if (evicts(*one)) found.insert(one->budget);
  const std::vector<std::string> budgets = ordered_budgets(found);
  std::vector<Panel> panels;
  for (const auto& [name, group] : grouped<std::string>(
           all, [](const Sample& one) { return fmt::format("{}, B = {}", one.model, one.block); })) {
    Panel panel;
    panel.id = fmt::format("panel_{}", panels.size() + 1);
    panel.title = name;
    panel.x = {"budget", ""};
    panel.x.categories = budgets;
    panel.y = {measure, ""};
    panel.legend = panels.empty();
    const Series series = series_of(group);
    add_full_cache(series, budgets.size(), panel);
    add_policies(series, budgets, panel);
    panels.push_back(std::move(panel));
  }
  return panels;
}

Panel model_panel(const Samples& all, const std::string& measure) {
  Panel panel;
  panel.id = "models";
  panel.x = {"model", ""};
  panel.y = {measure, ""};
  panel.legend = false;
  const auto look = figures::policy_look(kFull);
  figures::SpreadSeries marks(kFull, "full cache", look.colour, look.marker, kMarkSize);
  for (const auto& [model, group] : grouped<std::string>(all, [](const Sample& one) { return one.model; })) {
    std::vector<double> values;
    for (const Sample* one : group) values.insert(values.end(), one->values.begin(), one->values.end());
    const analysis::BootstrapMean mean = mean_of(values);
    marks.add(static_cast<double>(panel.x.categories.size()), mean.low, mean.mean, mean.high);
    panel.x.categories.push_back(model);
  }
  std::move(marks).put_into(panel);
  return panel;
}

std::string caption_of(const std::string& study, std::size_t n_values, std::int64_t n_missing) {
  std::string text = fmt::format("{}: means over {} numbers, with 95 % bootstrap intervals", study,
                                 format_count(static_cast<std::int64_t>(n_values)));
  if (n_missing > 0)
    text += fmt::format("; {} of the study have no result and are not in it", counted(n_missing, "cell"));
  return text + ".";
}

}  // namespace

std::vector<Figure> study_figures(std::span<const Sample> samples, const std::string& study,
                                  std::int64_t n_missing) {
  Samples all;
  for (const Sample& one : samples) all.push_back(&one);
  std::vector<Figure> made;
  using Key = std::pair<std::string, std::string>;
  for (const auto& [key, group] :
       grouped<Key>(all, [](const Sample& one) { return Key(one.command, one.measure); })) {
    const auto& [command, measure] = key;
    const bool compared = std::ranges::any_of(group, [](const Sample* one) { return evicts(*one); });
    Figure figure;
    figure.name = fmt::format("{} {}", command, measure);
    std::ranges::replace(figure.name, ' ', '-');
    figure.title = fmt::format("{} of {}", measure, command);
    std::size_t n_values = 0;
    for (const Sample* one : group) n_values += one->values.size();
    figure.caption = caption_of(study, n_values, n_missing);
    figure.shared_ranges = true;
    if (compared)
      figure.panels = budget_panels(group, measure);
    else
      figure.panels.push_back(model_panel(group, measure));
    figure.columns = static_cast<int>(std::min<std::size_t>(figure.panels.size(), 3));
    made.push_back(std::move(figure));
  }
  return made;
}

}  // namespace keyscope::sweep
