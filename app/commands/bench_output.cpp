#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "app/benchmarks/benchmark.hpp"
#include "app/commands/bench.hpp"
#include "app/commands/console.hpp"
#include "app/drawing/cairo_painter.hpp"
#include "app/figures/nexus.hpp"
#include "base/json.hpp"
#include "base/outputs_together.hpp"
#include "base/text.hpp"

namespace keyscope::commands {

namespace {

using benchmarks::Benchmark;
using benchmarks::Row;
using benchmarks::Spread;

struct BenchColumn {
  std::string title;
  std::function<std::optional<std::string>(const Row&)> cell;
};

// Three or four digits, whatever the size.
std::string digits(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

using Measured = std::optional<Spread> Row::*;

// The median, and least and most beside it.
BenchColumn spread(std::string title, Measured measured, double scale = 1) {
  return {std::move(title), [=](const Row& row) -> std::optional<std::string> {
            const auto& value = row.*measured;
            if (!value) return std::nullopt;
            return fmt::format("{} ({}–{})", digits(scale * value->median), digits(scale * value->least),
                               digits(scale * value->most));
          }};
}

BenchColumn median(std::string title, Measured measured) {
  return {std::move(title), [=](const Row& row) {
            return row.*measured ? std::optional(digits((row.*measured)->median)) : std::nullopt;
          }};
}

// What may be said of a ratio of times, under the title that it has in all benchmarks.
BenchColumn ratio(const std::string& name) {
  const auto columns = benchmarks::ratio_columns();
  const auto& column = *std::ranges::find(columns, name, &benchmarks::RatioColumn::name);
  return {column.title, [&column](const Row& row) {
            return row.*column.ratio ? std::optional(column.text(*(row.*column.ratio))) : std::nullopt;
          }};
}

BenchColumn count(std::string title, std::optional<std::int64_t> Row::*counted) {
  return {std::move(title), [=](const Row& row) {
            return row.*counted ? std::optional(std::to_string(*(row.*counted))) : std::nullopt;
          }};
}

BenchColumn bytes(std::string title, std::optional<std::int64_t> Row::*counted) {
  return {std::move(title), [=](const Row& row) {
            return row.*counted ? std::optional(bytes_text(*(row.*counted))) : std::nullopt;
          }};
}

BenchColumn number(std::string title, std::optional<double> Row::*value) {
  return {std::move(title),
          [=](const Row& row) { return row.*value ? std::optional(digits(*(row.*value))) : std::nullopt; }};
}

std::vector<BenchColumn> columns_of(const Benchmark& benchmark) {
  constexpr double kMebibyte = 1 << 20;
  return {{"policy", [](const Row& row) { return std::optional(row.policy); }},
          count("budget", &Row::budget),
          count("block", &Row::block),
          {"schedule", [](const Row& row) { return row.schedule; }},
          {benchmark.name == "score" ? "keys" : "tokens",
           [](const Row& row) { return std::optional(std::to_string(row.n_tokens)); }},
          spread("ttft ms", &Row::ttft_ms),
          ratio("ttft_relative"),
          median("tokens/s", &Row::tokens_per_second),
          ratio("attention_share"),
          ratio("eviction_share"),
          ratio("products_share"),
          median("generated/s", &Row::generated_per_second),
          median("plain ms", &Row::plain_ms),
          median("recorded ms", &Row::recorded_ms),
          ratio("overhead"),
          bytes("file", &Row::file_bytes),
          median("score us", &Row::score_us),
          median("select us", &Row::select_us),
          median("statistics us", &Row::statistics_us),
          ratio("relative"),
          ratio("all_relative"),
          number("flop model", &Row::flops_relative),
          number("Table 19", &Row::paper_relative),
          spread("peak MiB", &Row::peak_bytes, 1 / kMebibyte),
          count("cache rows", &Row::peak_cache_rows),
          bytes("cache", &Row::peak_cache_bytes)};
}

// Columns on the terminal: code points, for the dash between two numbers is one.
std::size_t width_of(const std::string& text) {
  return text.size() - std::ranges::count_if(text, continues_character);
}

std::string padded(const std::string& text, std::size_t width, bool left) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  return left ? text + space : space + text;
}

// The rows as text, one line each, with the columns that any of them has: medians, and the extremes of what
// the benchmark is about.
std::string bench_table(const Benchmark& benchmark) {
  std::vector<std::string> lines(benchmark.rows.size() + 1);
  for (const BenchColumn& column : columns_of(benchmark)) {
    std::vector<std::string> cells{column.title};
    bool any = false;
    for (const Row& row : benchmark.rows) {
      const auto cell = column.cell(row);
      any = any || cell;
      cells.push_back(cell.value_or("–"));
    }
    if (!any) continue;
    std::size_t width = 0;
    for (const std::string& cell : cells) width = std::max(width, width_of(cell));
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const bool first = lines[i].empty();
      lines[i] += (first ? "" : "  ") + padded(cells[i], width, first);
    }
  }
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

// What it was measured on: model, dtype, threads, kernels, repetitions, the products' rate and the load.
std::string bench_setting(const Benchmark& benchmark) {
  const benchmarks::Setting& setting = benchmark.setting;
  std::vector<std::string> parts;
  if (!setting.model.empty()) parts.push_back(setting.model);
  parts.push_back(fmt::format("{} on {}", setting.dtype, setting.device));
  parts.push_back(counted(setting.threads, "thread"));
  if (!setting.kernels.empty()) parts.push_back(fmt::format("kernels {}", setting.kernels));
  if (setting.weight_bytes > 0) parts.push_back(fmt::format("weights {}", bytes_text(setting.weight_bytes)));
  parts.push_back(counted(benchmark.repeat, "repetition") + ": median (least–most)");
  std::string text = fmt::format("{}\n", fmt::join(parts, ", "));
  if (const auto& rate = benchmark.product_gflops)
    text += fmt::format("matrix products alone: {} GFLOP/s ({}–{})\n", digits(rate->median),
                        digits(rate->least), digits(rate->most));
  if (benchmark.load_before && benchmark.load_after)
    text += fmt::format("load average of the machine: {:.2f} before, {:.2f} after\n", *benchmark.load_before,
                        *benchmark.load_after);
  return text;
}

// Why ratios cannot be told, and which: "relative of tova, 512 keys".
std::map<std::string, std::vector<std::string>> doubts_of(const Benchmark& benchmark) {
  std::map<std::string, std::vector<std::string>> doubts;
  for (const auto& column : benchmarks::ratio_columns())
    for (const Row& row : benchmark.rows) {
      const auto& ratio = row.*column.ratio;
      if (!ratio || ratio->told()) continue;
      doubts[ratio->doubt].push_back(fmt::format(
          "{} of {}, {}", column.title, row.policy,
          benchmark.name == "score" ? counted(row.n_tokens, "key") : counted(row.n_tokens, "token")));
    }
  return doubts;
}

// What brackets behind ratios are, and why some of them are not there.
std::string ratio_notes(const Benchmark& benchmark) {
  const bool any = std::ranges::any_of(benchmark.rows, [](const Row& row) {
    return std::ranges::any_of(benchmarks::ratio_columns(),
                               [&](const auto& column) { return (row.*column.ratio).has_value(); });
  });
  if (!any) return "";
  std::string text = fmt::format("[…]: {:.0f} % interval of a ratio's median over {}\n",
                                 100 * benchmarks::kRatioConfidence, counted(benchmark.repeat, "round"));
  for (const auto& [doubt, whose] : doubts_of(benchmark)) {
    const std::string first = fmt::format(
        "{}", fmt::join(whose.begin(), whose.begin() + std::min<std::ptrdiff_t>(std::ssize(whose), 3), ", "));
    text += fmt::format("cannot be told: {}{}, as {}\n", first,
                        whose.size() > 3 ? fmt::format(" and {} more", whose.size() - 3) : "", doubt);
  }
  return text;
}

// A figure file says where its figures come from; all of the benchmark is in its configuration.
recording::Origin origin_of(const benchmarks::Benchmark& benchmark,
                            const std::optional<capture::ModelConfig>& config) {
  recording::Origin origin;
  origin.provenance = provenance_now();
  origin.provenance.configuration = json_text(benchmarks::benchmark_json(benchmark));
  origin.provenance.seed = static_cast<std::int64_t>(benchmark.seed);
  origin.provenance.device = benchmark.setting.device;
  origin.model = {"{}", "random keys", 1, 1, 1, 1};
  if (config) origin.model = capture::model_info(*config, benchmark.setting.model);
  return origin;
}

void write_figure(const benchmarks::Benchmark& benchmark, const std::optional<capture::ModelConfig>& config,
                  const BenchOutputs& outputs) {
  const figures::Figure figure = benchmarks::benchmark_figure(benchmark);
  if (figures::is_nexus_path(outputs.out))
    return figures::write_nexus(outputs.out, {figure}, origin_of(benchmark, config), outputs.force);
  figures::PageOptions page;
  page.replace = outputs.force;
  figures::draw_to_file(figure, outputs.out, page);
}

}  // namespace

void write_benchmark(const benchmarks::Benchmark& benchmark,
                     const std::optional<capture::ModelConfig>& config, const BenchOutputs& outputs) {
  if (!outputs.json.is_stdout())
    say("{}\n{}{}", bench_setting(benchmark), bench_table(benchmark), ratio_notes(benchmark));
  OutputsTogether together;
  if (!outputs.out.empty()) write_figure(benchmark, config, outputs);
  if (outputs.json.given()) write_json(outputs.json, benchmarks::benchmark_json(benchmark));
  together.commit();
}

}  // namespace keyscope::commands
