#include "app/grid/grid_scores.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::grid {

namespace {

constexpr double kPoints = 100;

using Strata = std::vector<std::vector<double>>;
using Place = BySlot<std::size_t>;

// Of the examples of a task, those of each data set apart, all times `factor`.
void append_strata(Strata& strata, const TaskScores& task, std::span<const double> values, double factor) {
  for (const std::vector<std::size_t>& examples : task.data_sets) {
    std::vector<double>& stratum = strata.emplace_back();
    for (const std::size_t example : examples) stratum.push_back(factor * values[example]);
  }
}

std::vector<std::vector<std::size_t>> data_sets_of(const adoption::Task& task) {
  std::map<std::string, std::size_t> places;
  std::vector<std::vector<std::size_t>> sets;
  for (std::size_t i = 0; i < task.examples.size(); ++i) {
    const auto [place, is_new] =
        places.try_emplace(task.data_sets.empty() ? std::string() : task.data_sets[i], sets.size());
    if (is_new) sets.emplace_back();
    sets[place->second].push_back(i);
  }
  return sets;
}

std::vector<double> minus(std::span<const double> a, std::span<const double> b) {
  std::vector<double> difference(a.size());
  std::ranges::transform(a, b, difference.begin(), std::minus());
  return difference;
}

void add_to(std::vector<double>& sum, std::span<const double> values) {
  std::ranges::transform(sum, values, sum.begin(), std::plus());
}

void divide(std::vector<double>& values, double by) {
  for (double& value : values) value /= by;
}

}  // namespace

std::vector<GridSetting> grid_settings(const evaluation::Settings& settings) {
  std::vector<GridSetting> all;
  for (const std::int64_t block : settings.blocks)
    for (const evaluation::AskedBudget& budget : settings.budgets) {
      std::string label = budget.text;
      if (settings.blocks.size() > 1) label += fmt::format(", B = {}", block);
      all.push_back({budget.text, block, std::move(label)});
    }
  return all;
}

TaskScores task_scores(const adoption::Task& task, std::span<const evaluation::ExampleResult> results,
                       const evaluation::Settings& settings) {
  const auto grid = evaluation::grid_of(settings);
  const std::size_t n_examples = task.examples.size();
  if (results.size() != n_examples * grid.size())
    throw InvalidInput(fmt::format("task {}: {} results; expected {} of each of {} examples", task.name,
                                   results.size(), grid.size(), n_examples));
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::size_t> points;
  for (std::size_t i = 0; i < grid.size(); ++i)
    points[{grid[i].policy, grid[i].budget_text, grid[i].block}] = i;
  const auto scores_at = [&](std::size_t point) {
    MethodScores scores;
    double rows = 0;
    for (std::size_t i = 0; i < n_examples; ++i) {
      const evaluation::ExampleResult& result = results[i * grid.size() + point];
      scores.points.push_back(kPoints * result.score(task.score));
      scores.rows_kept += result.rows_kept / static_cast<double>(n_examples);
      rows += static_cast<double>(result.budget) / static_cast<double>(n_examples);
    }
    scores.budget = static_cast<std::int64_t>(std::floor(rows + 0.5));
    return scores;
  };
  TaskScores found{task.name, task.metric, std::ssize(task.examples), data_sets_of(task), {}, {}};
  for (const GridSetting& setting : grid_settings(settings)) {
    found.full.push_back(scores_at(points.at({"none", "", setting.block})).points);
    auto& methods = found.methods.emplace_back();
    for (const evaluation::AskedPolicy& policy : settings.policies)
      methods.push_back(scores_at(points.at({policy.text, setting.budget_text, setting.block})));
  }
  return found;
}

analysis::BootstrapMean mean_points(const TaskScores& task, std::span<const double> points,
                                    std::uint64_t seed) {
  Strata strata;
  append_strata(strata, task, points, 1);
  return analysis::stratified_bootstrap_mean(strata, {.seed = seed});
}

namespace {

// Pairs of methods that differ in one slot alone, in which the second is at the base.
using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

Pairs pairs_of(const GridPlan& plan, Slot slot, std::size_t value) {
  Pairs pairs;
  for (std::size_t i = 0; i < plan.methods.size(); ++i) {
    if (plan.methods[i].at[slot] != value) continue;
    Place at = plan.methods[i].at;
    at[slot] = plan.base[slot];
    if (const auto other = plan.find(at)) pairs.emplace_back(i, *other);
  }
  return pairs;
}

// The pair whose other slots are at the base.
Pairs pair_at_base(const GridPlan& plan, Slot slot, std::size_t value) {
  Place at = plan.base;
  at[slot] = value;
  return {{*plan.find(at), 0}};
}

class Differences {
 public:
  explicit Differences(const GridScores& scores) : scores_(scores) {}

  std::vector<GridDifference> all() {
    for (std::size_t task = 0; task < scores_.tasks.size(); ++task)
      for (std::size_t setting = 0; setting < scores_.settings.size(); ++setting)
        for (const Slot slot : kSlots)
          for (std::size_t value = 0; value < scores_.plan.values[slot].size(); ++value)
            if (value != scores_.plan.base[slot]) add(task, setting, slot, value);
    const auto tests = analysis::sign_flip_tests(comparisons_, {.seed = scores_.seed});
    for (std::size_t i = 0; i < tests.size(); ++i) found_[i].test = tests[i];
    return std::move(found_);
  }

 private:
  void add(std::size_t task, std::size_t setting, Slot slot, std::size_t value) {
    const Pairs at_base = pair_at_base(scores_.plan, slot, value),
                every = pairs_of(scores_.plan, slot, value);
    add(task, setting, slot, value, at_base);
    if (every.size() > 1) add(task, setting, slot, value, every);
  }

  void add(std::size_t task, std::size_t setting, Slot slot, std::size_t value, const Pairs& pairs) {
    const TaskScores& scores = scores_.tasks[task];
    const auto& methods = scores.methods[setting];
    std::vector<double> mean(static_cast<std::size_t>(scores.n_examples));
    for (const auto& [one, other] : pairs) add_to(mean, minus(methods[one].points, methods[other].points));
    divide(mean, static_cast<double>(pairs.size()));
    found_.push_back({task, setting, slot, value, pairs.size(), mean_points(scores, mean, scores_.seed), {}});
    // An example counts for as much in the test as in the mean.
    for (const auto& examples : scores.data_sets)
      for (const std::size_t example : examples) mean[example] /= static_cast<double>(examples.size());
    comparisons_.push_back({task, std::move(mean)});
  }

  const GridScores& scores_;
  std::vector<GridDifference> found_;
  std::vector<analysis::PairedComparison> comparisons_;
};

// The four corners of a lead, by example.
struct Corners {
  std::vector<double> scored_protected, scored, protected_, bare;
};

class Leads {
 public:
  explicit Leads(const GridScores& scores) : scores_(scores), plan_(scores.plan) {}

  LeadParts of(std::optional<std::size_t> task, std::optional<std::size_t> setting,
               std::optional<std::size_t> scorer, std::optional<std::size_t> protection) const {
    LeadParts parts;
    parts.task = task;
    parts.setting = setting;
    parts.scorer = scorer;
    parts.protection = protection;
    std::vector<const TaskScores*> tasks;
    for (std::size_t t = 0; t < scores_.tasks.size(); ++t)
      if (!task || *task == t) tasks.push_back(&scores_.tasks[t]);
    std::vector<Corners> corners;
    for (const TaskScores* each : tasks) corners.push_back(corners_of(*each, setting, scorer, protection));
    const auto strata = [&](double sp, double s, double p, double bare) {
      Strata all;
      std::size_t n_strata = 0;
      for (const TaskScores* each : tasks) n_strata += each->data_sets.size();
      for (std::size_t t = 0; t < tasks.size(); ++t) {
        std::vector<double> sum(corners[t].bare.size());
        for (std::size_t i = 0; i < sum.size(); ++i)
          sum[i] = sp * corners[t].scored_protected[i] + s * corners[t].scored[i] +
                   p * corners[t].protected_[i] + bare * corners[t].bare[i];
        // Tasks weigh the same, whatever data sets they have.
        append_strata(
            all, *tasks[t], sum,
            static_cast<double>(n_strata) / static_cast<double>(tasks.size() * tasks[t]->data_sets.size()));
      }
      return all;
    };
    const analysis::BootstrapOptions options{.seed = scores_.seed};
    const auto mean = [&](double sp, double s, double p, double bare) {
      return analysis::stratified_bootstrap_mean(strata(sp, s, p, bare), options);
    };
    parts.lead = mean(1, 0, 0, -1);
    parts.score = mean(0.5, 0.5, -0.5, -0.5);
    parts.protection_part = mean(0.5, -0.5, 0.5, -0.5);
    parts.score_alone = mean(0, 1, 0, -1);
    parts.score_protected = mean(1, 0, -1, 0);
    parts.protection_alone = mean(0, 0, 1, -1);
    parts.protection_scored = mean(1, -1, 0, 0);
    parts.interaction = mean(1, -1, -1, 1);
    constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
    parts.share = {kUnknown, kUnknown, kUnknown, parts.lead.n_samples};
    if (parts.lead.low > 0)
      parts.share =
          analysis::stratified_bootstrap_ratio(strata(0.5, -0.5, 0.5, -0.5), strata(1, 0, 0, -1), options);
    return parts;
  }

 private:
  // Means over all that is not given.
  Corners corners_of(const TaskScores& task, std::optional<std::size_t> setting,
                     std::optional<std::size_t> scorer, std::optional<std::size_t> protection) const {
    const auto n = static_cast<std::size_t>(task.n_examples);
    Corners sum{std::vector<double>(n), std::vector<double>(n), std::vector<double>(n),
                std::vector<double>(n)};
    double n_added = 0;
    for (const Method& method : plan_.methods) {
      const std::size_t s = method.at[Slot::kScorer], p = method.at[Slot::kProtection];
      if (s == *plan_.reference || p == *plan_.unprotected) continue;
      if ((scorer && *scorer != s) || (protection && *protection != p)) continue;
      const auto at = [&](std::size_t its_scorer, std::size_t its_protection) {
        Place place = method.at;
        place[Slot::kScorer] = its_scorer;
        place[Slot::kProtection] = its_protection;
        return plan_.find(place);
      };
      const auto one = at(s, p), scored = at(s, *plan_.unprotected), guarded = at(*plan_.reference, p),
                 bare = at(*plan_.reference, *plan_.unprotected);
      if (!one || !scored || !guarded || !bare) continue;
      for (std::size_t k = 0; k < scores_.settings.size(); ++k) {
        if (setting && *setting != k) continue;
        const auto& points = task.methods[k];
        add_to(sum.scored_protected, points[*one].points);
        add_to(sum.scored, points[*scored].points);
        add_to(sum.protected_, points[*guarded].points);
        add_to(sum.bare, points[*bare].points);
        ++n_added;
      }
    }
    for (auto* corner : {&sum.scored_protected, &sum.scored, &sum.protected_, &sum.bare})
      divide(*corner, n_added);
    return sum;
  }

  const GridScores& scores_;
  const GridPlan& plan_;
};

}  // namespace

std::vector<GridDifference> grid_differences(const GridScores& scores) { return Differences(scores).all(); }

std::string no_parts_because(const GridPlan& plan) {
  if (!plan.reference) return "The reference is not among the scorers.";
  if (plan.values[Slot::kScorer].size() < 2) return "There is no scorer but the reference.";
  if (!plan.unprotected) return "\"none\" is not among the protections.";
  if (plan.values[Slot::kProtection].size() < 2) return "There is no protection but \"none\".";
  if (!plan.crossed[Slot::kScorer] || !plan.crossed[Slot::kProtection])
    return "Scorers and protections are not crossed.";
  return "";
}

std::vector<LeadParts> lead_parts(const GridScores& scores) {
  std::vector<LeadParts> parts;
  if (!no_parts_because(scores.plan).empty()) return parts;
  const Leads leads(scores);
  const std::size_t n_tasks = scores.tasks.size(), n_settings = scores.settings.size();
  using Choice = std::optional<std::size_t>;
  std::vector<Choice> tasks{std::nullopt}, settings{std::nullopt}, scorers{std::nullopt};
  for (std::size_t t = 0; t < n_tasks && n_tasks > 1; ++t) tasks.emplace_back(t);
  for (std::size_t k = 0; k < n_settings && n_settings > 1; ++k) settings.emplace_back(k);
  for (std::size_t s = 0; s < scores.plan.values[Slot::kScorer].size(); ++s)
    if (s != *scores.plan.reference) scorers.emplace_back(s);
  for (const Choice& task : tasks)
    for (const Choice& setting : settings)
      for (const Choice& scorer : scorers) parts.push_back(leads.of(task, setting, scorer, std::nullopt));
  for (std::size_t p = 0; p < scores.plan.values[Slot::kProtection].size(); ++p)
    if (p != *scores.plan.unprotected)
      for (const Choice& setting : settings)
        parts.push_back(leads.of(std::nullopt, setting, std::nullopt, p));
  return parts;
}

}  // namespace keyscope::grid
