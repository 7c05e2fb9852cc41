#include "app/benchmarks/benchmark.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "app/figures/labels.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace keyscope::benchmarks {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<const char*, std::optional<Spread> Row::*> kSpreads[]{
    {"ttft_ms", &Row::ttft_ms},
    {"ttft_relative", &Row::ttft_relative},
    {"tokens_per_second", &Row::tokens_per_second},
    {"attention_share", &Row::attention_share},
    {"eviction_share", &Row::eviction_share},
    {"products_share", &Row::products_share},
    {"generated_per_second", &Row::generated_per_second},
    {"plain_ms", &Row::plain_ms},
    {"recorded_ms", &Row::recorded_ms},
    {"overhead", &Row::overhead},
    {"score_us", &Row::score_us},
    {"select_us", &Row::select_us},
    {"statistics_us", &Row::statistics_us},
    {"relative", &Row::relative},
    {"all_relative", &Row::all_relative},
    {"peak_bytes", &Row::peak_bytes}};
constexpr std::pair<const char*, std::optional<double> Row::*> kNumbers[]{
    {"paper_relative", &Row::paper_relative},
    {"flops", &Row::flops},
    {"flops_relative", &Row::flops_relative}};
constexpr std::pair<const char*, std::optional<std::int64_t> Row::*> kCounts[]{
    {"file_bytes", &Row::file_bytes},
    {"peak_cache_rows", &Row::peak_cache_rows},
    {"peak_cache_bytes", &Row::peak_cache_bytes}};

void put(Json& json, const std::string& name, const std::optional<Spread>& spread) {
  json[name] = spread ? Json(spread->median) : Json(nullptr);
  json[name + "_min"] = spread ? Json(spread->least) : Json(nullptr);
  json[name + "_max"] = spread ? Json(spread->most) : Json(nullptr);
}

constexpr std::array<RatioColumn, 7> kRatios{
    {{"ttft_relative", "× none", &Row::ttft_ratio, 0, ratio_text},
     {"attention_share", "attention %", &Row::attention_ratio, 0, percent_text},
     {"eviction_share", "eviction %", &Row::eviction_ratio, 0, percent_text},
     {"products_share", "products %", &Row::products_ratio, 0, percent_text},
     {"overhead", "overhead %", &Row::recording_ratio, 1, excess_text},
     {"relative", "relative", &Row::score_ratio, 0, ratio_text},
     {"all_relative", "all relative", &Row::all_ratio, 0, ratio_text}}};

void put(Json& json, const RatioColumn& column, const std::optional<PairedRatio>& ratio) {
  const std::string name = column.name;
  json[name + "_low"] = ratio ? json_number(ratio->low - column.from) : Json();
  json[name + "_high"] = ratio ? json_number(ratio->high - column.from) : Json();
  json[name + "_told"] = ratio ? Json(ratio->told()) : Json();
  json[name + "_doubt"] = ratio && !ratio->told() ? Json(ratio->doubt) : Json();
}

Json row_json(const Row& row) {
  Json json{{"policy", row.policy},
            {"budget", json_number(row.budget)},
            {"block", json_number(row.block)},
            {"schedule", row.schedule ? Json(*row.schedule) : Json()},
            {"n_tokens", row.n_tokens}};
  for (const auto& [name, spread] : kSpreads) put(json, name, row.*spread);
  for (const RatioColumn& column : kRatios) put(json, column, row.*column.ratio);
  json["ttft_ms_rounds"] = row.ttft_rounds.times;
  for (const auto& [name, number] : kNumbers) json[name] = json_number(row.*number);
  for (const auto& [name, count] : kCounts) json[name] = json_number(row.*count);
  return json;
}

}  // namespace

Setting setting_of(const capture::Model& model) {
  const auto folder = std::filesystem::absolute(model.folder()).lexically_normal();
  const auto name = folder.has_filename() ? folder.filename() : folder.parent_path().filename();
  return {name.string(),           model.dtype_name(), model.device_name(),
          model.arithmetic_name(), model.threads(),    model.weight_bytes()};
}

Json benchmark_json(const Benchmark& benchmark) {
  const Setting& setting = benchmark.setting;
  Json json{{"format", 1}, {"benchmark", benchmark.name}};
  json["model"] = setting.model.empty() ? Json(nullptr) : Json(setting.model);
  json["dtype"] = setting.dtype;
  json["device"] = setting.device;
  json["kernels"] = setting.kernels;
  json["threads"] = setting.threads;
  json["weight_bytes"] = setting.weight_bytes;
  json["repeat"] = benchmark.repeat;
  json["seed"] = benchmark.seed;
  put(json, "product_gflops", benchmark.product_gflops);
  json["load_before"] = json_number(benchmark.load_before);
  json["load_after"] = json_number(benchmark.load_after);
  json["ratios"] = ratio_rules_json(benchmark.load);
  json["rows"] = Json::array();
  for (const Row& row : benchmark.rows) json["rows"].push_back(row_json(row));
  return json;
}

std::span<const RatioColumn> ratio_columns() { return kRatios; }

std::string Case::label() const {
  return budget > 0 ? fmt::format("{} N={} B={}", policy, budget, block)
                    : fmt::format("{} B={}", policy, block);
}

std::vector<Case> cases_of(const Sweep& sweep) {
  std::vector<Case> cases;
  for (const std::int64_t n_tokens : sweep.n_tokens)
    for (const std::int64_t block : sweep.blocks)
      for (const capture::Schedule schedule : sweep.schedules)
        for (const std::string& policy : sweep.policies) {
          const analysis::PolicySpec spec = analysis::parse_policy(policy);
          const bool evicts = spec.name != "none";
          for (const analysis::Budget& budget : evicts ? sweep.budgets : std::vector{analysis::Budget()})
            cases.push_back({policy, spec, budget.rows_for(n_tokens), block, schedule, n_tokens});
        }
  return cases;
}

Row row_of(const Case& benchmark_case) {
  Row row;
  row.policy = benchmark_case.policy;
  if (benchmark_case.budget > 0) row.budget = benchmark_case.budget;
  row.block = benchmark_case.block;
  row.schedule = benchmark_case.schedule == capture::Schedule::kLayer ? "layer" : "block";
  row.n_tokens = benchmark_case.n_tokens;
  return row;
}

capture::CaptureOptions capture_options(const Case& benchmark_case, const std::vector<std::int32_t>& prompt,
                                        const Sweep& sweep) {
  if (static_cast<std::int64_t>(prompt.size()) < benchmark_case.n_tokens)
    throw UsageError(fmt::format("--tokens {}: the prompt has {}", benchmark_case.n_tokens, prompt.size()));
  capture::CaptureOptions options;
  options.prompt_ids.assign(prompt.begin(), prompt.begin() + benchmark_case.n_tokens);
  options.policies = {benchmark_case.spec};
  options.budget = benchmark_case.budget;
  options.block_size = benchmark_case.block;
  options.schedule = benchmark_case.schedule;
  options.generate = sweep.generate;
  options.ignore_eos = true;  // as many tokens for every policy
  options.seed = sweep.seed;
  return options;
}

// The remainder is the same everywhere, which the library's distributions are not.
std::vector<std::int32_t> random_prompt(std::int64_t n_tokens, std::int64_t vocab_size, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  std::vector<std::int32_t> ids(n_tokens);
  for (std::int32_t& id : ids)
    id = static_cast<std::int32_t>(draw() % static_cast<std::uint64_t>(vocab_size));
  return ids;
}

std::int64_t largest(const std::vector<std::int64_t>& values) { return std::ranges::max(values); }

std::optional<Spread> spread_of(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return Spread{median, values.front(), values.back()};
}

namespace {

using figures::Figure;
using figures::LineSeries;
using figures::Panel;

enum class Along { kTokens, kBudget, kBlock };

std::optional<std::int64_t> value_of(const Row& row, Along along) {
  if (along == Along::kTokens) return row.n_tokens;
  return along == Along::kBudget ? row.budget : row.block;
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
  std::optional<PairedRatio> Row::*ratio = nullptr;  // where it is a ratio of times
  double from = 0;                                   // taken off that
};

Quantity quantity_of(const std::string& benchmark) {
  if (benchmark == "score")
    return {
        "Cost of eviction", {"time relative to the baseline's", ""}, &Row::all_relative, 1, &Row::all_ratio};
  if (benchmark == "capture")
    return {"Cost of recording", {"overhead", "%"}, &Row::overhead, 100, &Row::recording_ratio, 1};
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
    if (quantity_.ratio != nullptr) return add_ratio(panel, line, *x, row.*quantity_.ratio);
    line.x.push_back(static_cast<float>(*x));
    line.y.push_back(static_cast<float>(quantity_.scale * spread->median));
  }

  // With a bar as long as its interval; what cannot be told is not drawn.
  void add_ratio(Panel& panel, LineSeries& line, std::int64_t x,
                 const std::optional<PairedRatio>& ratio) const {
    if (!ratio || !ratio->told()) return;
    const auto put = [&](LineSeries& series, double value) {
      series.x.push_back(static_cast<float>(x));
      series.y.push_back(static_cast<float>(quantity_.scale * (value - quantity_.from)));
    };
    put(line, ratio->ratio);
    const std::string id = line.id + "_interval";
    const figures::Colour colour = line.colour;  // `line` is gone once another line stands beside it
    auto bars = std::ranges::find(panel.lines, id, &LineSeries::id);
    if (bars == panel.lines.end()) {
      panel.lines.emplace_back();
      bars = std::prev(panel.lines.end());
      bars->id = id;
      bars->colour = colour;
    }
    for (const double end : {ratio->low, ratio->high, std::numeric_limits<double>::quiet_NaN()})
      put(*bars, end);
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
  std::string caption =
      fmt::format("{}, {} on {}, {}; medians of {}", where, setting.dtype, setting.device,
                  counted(setting.threads, "thread"), counted(benchmark.repeat, "repetition"));
  const Quantity quantity = quantity_of(benchmark.name);
  if (quantity.ratio == nullptr) return caption;
  caption += fmt::format(", bars are {:.0f} % intervals", 100 * kRatioConfidence);
  std::vector<PairedRatio> untold;
  for (const Row& row : benchmark.rows)
    if (const auto& ratio = row.*quantity.ratio; ratio && !ratio->told()) untold.push_back(*ratio);
  if (untold.empty()) return caption;
  const std::vector<std::string> doubts = doubts_of(untold);
  caption += fmt::format(
      "; {} of {} cannot be told and are not drawn: {}{}", untold.size(), benchmark.rows.size(),
      doubts.front(),
      doubts.size() > 1 ? fmt::format(" ({} more)", counted(std::ssize(doubts) - 1, "reason")) : "");
  return caption;
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
