#include "app/benchmarks/benchmark_figure.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/figures/policy_look.hpp"

namespace keyscope::benchmarks {
namespace {

using figures::Figure;
using figures::LineSeries;
using figures::Panel;

enum class Along { kTokens, kBudget, kBlock };

std::optional<std::int64_t> value_of(const Row& row, Along along) {
  switch (along) {
    case Along::kBudget:
      return row.budget;
    case Along::kBlock:
      return row.block;
    case Along::kTokens:
      break;
  }
  return row.n_tokens;
}

std::set<std::int64_t> values_of(const std::vector<Row>& rows, Along along) {
  std::set<std::int64_t> values;
  for (const Row& row : rows)
    if (const auto value = value_of(row, along)) values.insert(*value);
  return values;
}

// What was varied most; with scoring, budgets follow from the number of keys.
Along varied_most(const Benchmark& benchmark) {
  Along best = Along::kTokens;
  if (benchmark.name == "score") return best;
  for (const Along along : {Along::kBudget, Along::kBlock})
    if (values_of(benchmark.rows, along).size() > values_of(benchmark.rows, best).size()) best = along;
  return best;
}

// What a benchmark is about, and in which units it is drawn.
struct Quantity {
  const char* title;
  figures::Axis axis;
  std::optional<Spread> Row::*spread;
  double scale;
};

Quantity quantity_of(const std::string& benchmark) {
  if (benchmark == "score")
    return {"Cost of eviction", {"time relative to the baseline's", ""}, &Row::all_relative, 1};
  if (benchmark == "capture") return {"Cost of recording", {"overhead", "%"}, &Row::overhead, 100};
  if (benchmark == "memory")
    return {"Peak memory", {"peak memory", "MiB"}, &Row::peak_bytes, 1.0 / (1 << 20)};
  return {"Time to first token", {"time to first token", "ms"}, &Row::ttft_ms, 1};
}

figures::Axis axis_of(Along along, const std::string& benchmark) {
  if (along == Along::kBudget) return {"budget N", "rows"};
  if (along == Along::kBlock) return {"block B", "tokens"};
  return benchmark == "score" ? figures::Axis{"keys", ""} : figures::Axis{"prompt", "tokens"};
}

// Rows that have no budget belong to every budget where that was varied.
std::vector<Row> with_budgets(const std::vector<Row>& rows) {
  const std::set<std::int64_t> budgets = values_of(rows, Along::kBudget);
  std::vector<Row> all;
  for (const Row& row : rows) {
    if (row.budget || budgets.size() < 2) {
      all.push_back(row);
      continue;
    }
    for (const std::int64_t budget : budgets) all.emplace_back(row).budget = budget;
  }
  return all;
}

// Takes a benchmark apart into panels and lines.
class FigureOfRows {
 public:
  explicit FigureOfRows(const Benchmark& benchmark)
      : name_(benchmark.name),
        rows_(with_budgets(benchmark.rows)),
        along_(varied_most(benchmark)),
        quantity_(quantity_of(benchmark.name)) {
    for (const Along along : {Along::kTokens, Along::kBudget, Along::kBlock})
      if (along != along_ && name_ != "score" && values_of(rows_, along).size() > 1) apart_.push_back(along);
    for (const Row& row : rows_) {
      if (std::ranges::find(policies_, row.policy) == policies_.end()) policies_.push_back(row.policy);
      schedules_.insert(row.schedule.value_or(""));
    }
  }

  std::vector<Panel> panels() const {
    std::vector<Panel> panels;
    for (const Row& row : rows_) add(panel_called(panels, panel_title(row)), row);
    return panels;
  }

 private:
  std::string panel_title(const Row& row) const {
    std::vector<std::string> parts;
    for (const Along along : apart_) {
      if (along == Along::kTokens) parts.push_back(fmt::format("{} tokens", row.n_tokens));
      if (along == Along::kBudget) parts.push_back(fmt::format("N = {}", row.budget.value_or(0)));
      if (along == Along::kBlock) parts.push_back(fmt::format("B = {}", row.block.value_or(0)));
    }
    if (schedules_.size() > 1) parts.push_back(row.schedule.value_or("") + " schedule");
    return fmt::format("{}", fmt::join(parts, ", "));
  }

  Panel& panel_called(std::vector<Panel>& panels, const std::string& title) const {
    const auto found = std::ranges::find(panels, title, &Panel::title);
    if (found != panels.end()) return *found;
    Panel panel;
    panel.id = title.empty() ? name_ : title;
    panel.title = title;
    panel.x = axis_of(along_, name_);
    panel.y = quantity_.axis;
    figures::PolicyLooks looks;
    for (const std::string& policy : policies_) {
      const auto look = looks.next(policy);
      LineSeries line;
      line.id = line.label = policy;
      line.colour = look.colour;
      line.marker = look.marker;
      panel.lines.push_back(std::move(line));
    }
    return panels.emplace_back(std::move(panel));
  }

  void add(Panel& panel, const Row& row) const {
    const auto& spread = row.*quantity_.spread;
    const auto x = value_of(row, along_);
    if (!spread || !x) return;
    LineSeries& line = *std::ranges::find(panel.lines, row.policy, &LineSeries::id);
    line.x.push_back(static_cast<float>(*x));
    line.y.push_back(static_cast<float>(quantity_.scale * spread->median));
  }

  std::string name_;
  std::vector<Row> rows_;
  Along along_;
  Quantity quantity_;
  std::vector<Along> apart_;  // what else was varied: a panel for each value
  std::vector<std::string> policies_;
  std::set<std::string> schedules_;
};

std::string caption_of(const Benchmark& benchmark) {
  const Setting& setting = benchmark.setting;
  const std::string where = setting.model.empty() ? "random keys" : setting.model;
  return fmt::format("{}, {} on {}, {} thread{}; medians of {} repetition{}", where, setting.dtype,
                     setting.device, setting.threads, setting.threads == 1 ? "" : "s", benchmark.repeat,
                     benchmark.repeat == 1 ? "" : "s");
}

}  // namespace

Figure benchmark_figure(const Benchmark& benchmark) {
  Figure figure;
  figure.name = "bench-" + benchmark.name;
  figure.title = quantity_of(benchmark.name).title;
  figure.caption = caption_of(benchmark);
  figure.panels = FigureOfRows(benchmark).panels();
  figure.columns =
      figure.panels.size() == 4 ? 2 : static_cast<int>(std::min<std::size_t>(figure.panels.size(), 3));
  figure.shared_ranges = figure.panels.size() > 1;
  return figure;
}

}  // namespace keyscope::benchmarks
