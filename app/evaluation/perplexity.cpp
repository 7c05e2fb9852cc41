#include "app/evaluation/perplexity.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/figures/labels.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"

namespace keyscope::evaluation {

namespace {

namespace fs = std::filesystem;

// What the tokenizer puts in front of every text.
std::optional<std::int32_t> leading_special(const tokenizer::Tokenizer& tokenizer) {
  const auto with = tokenizer.encode("a", true), without = tokenizer.encode("a", false);
  if (with.size() == without.size() || with.empty() || with.front() == without.front()) return std::nullopt;
  return with.front();
}

WindowRule rule_of(const PerplexityOptions& options, const capture::Model& model) {
  const std::int64_t context = model.config().context_length;
  if (options.length < 2 || options.length > context)
    throw UsageError(
        fmt::format("--length: found {}; expected 2 to {}, the model's context", options.length, context));
  if (options.bins < 1) throw UsageError(fmt::format("--bins: found {}; expected 1 or more", options.bins));
  WindowRule rule{options.length, 0, leading_special(*model.tokenizer())};
  rule.stride = options.stride.value_or(longest_stride(rule));
  if (rule.stride < 1 || rule.stride > longest_stride(rule))
    throw UsageError(
        fmt::format("--stride: found {}; expected 1 to {}, the tokens that a window of {} can score",
                    rule.stride, longest_stride(rule), rule.length));
  return rule;
}

// Bytes that a window's scored tokens add to the text before them.
std::int64_t scored_bytes(const tokenizer::Tokenizer& tokenizer, const TextWindow& window) {
  const auto text = tokenizer.token_text(window.ids);
  return text.offset.back() - text.offset[window.first_scored];
}

void add_text(const fs::path& path, const PerplexityOptions& options, const WindowRule& rule,
              const tokenizer::Tokenizer& tokenizer, PerplexitySet& set) {
  const auto ids = tokenizer.encode(read_text_file(path), false);
  std::vector<TextWindow> windows = text_windows(ids, rule);
  if (windows.empty())
    throw FileError(
        fmt::format("{}: has {} tokens; expected at least the {} of a window, or a smaller --length",
                    path.string(), ids.size(), rule.length - (rule.bos ? 1 : 0)));
  if (options.windows && std::ssize(windows) > *options.windows) windows.resize(*options.windows);
  for (TextWindow& window : windows) {
    Example example;
    example.id = fmt::format("{}, token {}", path.string(), window.first);
    example.group = example.id;
    example.score_from = window.first_scored;
    example.about = {{"text", path.string()}, {"first", window.first}};
    set.n_scored += rule.stride;
    set.n_bytes += scored_bytes(tokenizer, window);
    example.prompt_ids = std::move(window.ids);
    set.examples.push_back(std::move(example));
  }
  const std::int64_t end = windows.back().first + rule.length - (rule.bos ? 1 : 0);
  set.n_left_out += std::ssize(ids) - end;
}

}  // namespace

PerplexitySet read_texts(const PerplexityOptions& options, const capture::Model& model) {
  const tokenizer::Tokenizer& tokenizer = model.folder_tokenizer().require("texts are read");
  for (const fs::path& path : options.texts) check_utf8(path.string(), "--text");
  const WindowRule rule = rule_of(options, model);
  PerplexitySet set;
  set.bins = {rule.stride, std::min(options.bins, rule.stride)};
  set.first_scored = rule.length - rule.stride;
  for (const fs::path& path : options.texts) add_text(path, options, rule, tokenizer, set);
  return set;
}

std::string bin_score(const PerplexitySet& set, std::int64_t bin) {
  return fmt::format("nll_nats {}-{}", set.first_scored + set.bins.begin(bin),
                     set.first_scored + set.bins.begin(bin + 1) - 1);
}

Scorer perplexity_scorer(const PerplexitySet& set) {
  return [&set](const Example&, const capture::Completion& completion) {
    std::vector<double> nll_nats;
    nll_nats.reserve(completion.log_probabilities.size());
    for (const double log_probability : completion.log_probabilities) nll_nats.push_back(-log_probability);
    const std::vector<double> means = bin_means(nll_nats, set.bins);
    Scores scores{{"nll_nats", mean_of_bins(means, set.bins)}};
    for (std::int64_t bin = 0; bin < set.bins.n_bins; ++bin)
      scores.emplace_back(bin_score(set, bin), means[bin]);
    return scores;
  };
}

nlohmann::ordered_json perplexity_settings(const PerplexityOptions& options) {
  return {{"length", options.length},
          {"stride", json_number(options.stride)},
          {"windows", json_number(options.windows)},
          {"bins", options.bins}};
}

namespace {

using Json = nlohmann::ordered_json;

ScoreMean raised(const ScoreMean& mean) {
  return {std::exp(mean.mean), std::exp(mean.low), std::exp(mean.high)};
}

ScoreMean scaled(const ScoreMean& mean, double by) { return {by * mean.mean, by * mean.low, by * mean.high}; }

PerplexityPoints points_of(const ScoreTable& table, const std::string& score, std::size_t point,
                           std::span<const std::size_t> windows, std::uint64_t seed) {
  PerplexityPoints points;
  points.nll_nats = bootstrap_score(table.scores(score, point, windows), seed);
  points.perplexity = raised(points.nll_nats);
  points.ratio = raised(bootstrap_score(table.differences(score, point, windows), seed));
  return points;
}

Json points_json(const PerplexityPoints& points, bool evicts) {
  Json json = Json::object();
  add_score(json, "nll_nats", points.nll_nats);
  add_score(json, "perplexity", points.perplexity);
  if (evicts) add_score(json, "ratio", points.ratio);
  return json;
}

Json curve_json(const PerplexityCell& cell, const PerplexitySet& set, bool evicts) {
  Json curve = Json::array();
  for (std::int64_t bin = 0; bin < set.bins.n_bins; ++bin) {
    Json entry{{"first", set.first_scored + set.bins.begin(bin)},
               {"last", set.first_scored + set.bins.begin(bin + 1) - 1}};
    entry.update(points_json(cell.curve[bin], evicts));
    curve.push_back(std::move(entry));
  }
  return curve;
}

}  // namespace

std::vector<PerplexityCell> perplexity_report(const ScoreTable& table, const PerplexitySet& set,
                                              std::uint64_t seed) {
  std::vector<std::size_t> windows(table.n_examples());
  std::iota(windows.begin(), windows.end(), 0);
  const double tokens_per_byte = static_cast<double>(set.n_scored) / static_cast<double>(set.n_bytes);
  std::vector<PerplexityCell> cells;
  for (std::size_t point = 0; point < table.grid().size(); ++point) {
    PerplexityCell cell;
    cell.point = point;
    cell.budget_rows = table.result(0, point).budget;
    cell.all = points_of(table, "nll_nats", point, windows, seed);
    cell.bits_per_byte = scaled(cell.all.nll_nats, tokens_per_byte / std::numbers::ln2);
    for (std::int64_t bin = 0; bin < set.bins.n_bins; ++bin)
      cell.curve.push_back(points_of(table, bin_score(set, bin), point, windows, seed));
    cells.push_back(std::move(cell));
  }
  return cells;
}

Json perplexity_json(std::span<const PerplexityCell> cells, std::span<const GridPoint> grid,
                     const PerplexitySet& set) {
  Json json{{"windows", set.examples.size()},
            {"tokens_scored", set.n_scored},
            {"bytes_scored", set.n_bytes},
            {"tokens_left_out", set.n_left_out},
            {"cells", Json::array()}};
  for (const PerplexityCell& cell : cells) {
    const bool evicts = grid[cell.point].evicts();
    Json row = point_json(grid[cell.point], cell.budget_rows);
    row["n"] = set.examples.size();
    row.update(points_json(cell.all, evicts));
    add_score(row, "bits_per_byte", cell.bits_per_byte);
    row["curve"] = curve_json(cell, set, evicts);
    json["cells"].push_back(std::move(row));
  }
  return json;
}

std::string perplexity_table(std::span<const PerplexityCell> cells, std::span<const GridPoint> grid) {
  std::string text = fmt::format("{:<22} {:>8} {:>6}  {:<28} {:<14} {}\n", "policy", "budget", "block",
                                 "perplexity", "bits per byte", "ratio to the full cache");
  for (const PerplexityCell& cell : cells) {
    const GridPoint& point = grid[cell.point];
    text += fmt::format("{:<22} {:>8} {:>6}  {:<28} {:<14.4f} {}\n", point.policy,
                        point.evicts() ? point.budget_text : "-", point.block,
                        with_interval(cell.all.perplexity, 2), cell.bits_per_byte.mean,
                        point.evicts() ? with_interval(cell.all.ratio, 4) : "1");
  }
  return text;
}

namespace {

using figures::Panel;

float middle(const PerplexitySet& set, std::int64_t bin) {
  return static_cast<float>(static_cast<double>(set.first_scored) +
                            static_cast<double>(set.bins.begin(bin) + set.bins.begin(bin + 1) - 1) / 2);
}

Panel empty_panel(const std::string& id, const std::string& title, const std::string& quantity) {
  Panel panel;
  panel.id = id;
  panel.title = title;
  panel.x = {"position in the window", "tokens"};
  panel.y = {quantity, ""};
  return panel;
}

void add_curve(Panel& panel, const PerplexityCell& cell, const std::string& policy, const PerplexitySet& set,
               figures::PolicyLooks::Look look, ScoreMean PerplexityPoints::*quantity) {
  figures::LineSeries line;
  figures::BandSeries band;
  line.label = line.id = policy;
  band.label = policy + ", 95 % interval over windows";
  band.id = policy + "_interval";
  line.colour = band.colour = look.colour;
  line.marker = look.marker;
  bool has_interval = true;
  for (std::int64_t bin = 0; bin < set.bins.n_bins; ++bin) {
    const ScoreMean& mean = cell.curve[bin].*quantity;
    line.x.push_back(middle(set, bin));
    line.y.push_back(static_cast<float>(mean.mean));
    band.low.push_back(static_cast<float>(mean.low));
    band.high.push_back(static_cast<float>(mean.high));
    has_interval = has_interval && std::isfinite(mean.low);
  }
  band.x = line.x;
  panel.lines.push_back(std::move(line));
  if (has_interval) panel.bands.push_back(std::move(band));
}

// Budgets that were asked for with a block, in the grid's order; one without a name where nothing evicts.
std::vector<std::pair<std::int64_t, std::string>> combinations(std::span<const GridPoint> grid) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  for (const GridPoint& point : grid) {
    const std::pair<std::int64_t, std::string> key(point.block, point.budget_text);
    const bool full_only = !point.evicts() && std::ranges::none_of(grid, &GridPoint::evicts);
    if ((point.evicts() || full_only) && std::ranges::find(found, key) == found.end()) found.push_back(key);
  }
  return found;
}

}  // namespace

figures::Figure perplexity_figure(std::span<const PerplexityCell> cells, std::span<const GridPoint> grid,
                                  const PerplexitySet& set, const std::string& caption) {
  figures::Figure figure;
  figure.name = "perplexity";
  figure.title = "Perplexity by position";
  figure.caption = caption;
  figure.columns = 2;
  for (const auto& [block, budget] : combinations(grid)) {
    const std::string where =
        budget.empty() ? fmt::format("B = {}", block) : fmt::format("N = {}, B = {}", budget, block);
    const std::string id = fmt::format("{}_{}", budget.empty() ? "full" : "N" + budget, block);
    Panel absolute = empty_panel("perplexity_" + id, where, "perplexity");
    Panel relative = empty_panel("ratio_" + id, where + ", to the full cache", "ratio of perplexities");
    figures::PolicyLooks looks;
    for (const PerplexityCell& cell : cells) {
      const GridPoint& point = grid[cell.point];
      if (point.block != block || (point.evicts() && point.budget_text != budget)) continue;
      const auto look = looks.next(point.spec.name);
      add_curve(absolute, cell, point.policy, set, look, &PerplexityPoints::perplexity);
      if (point.evicts()) add_curve(relative, cell, point.policy, set, look, &PerplexityPoints::ratio);
    }
    figure.panels.push_back(std::move(absolute));
    if (!relative.lines.empty()) figure.panels.push_back(std::move(relative));
  }
  return figure;
}

std::vector<double> bin_means(std::span<const double> values, const PositionBins& bins) {
  if (bins.n_bins < 1 || bins.n_positions < bins.n_bins || std::ssize(values) != bins.n_positions)
    throw InvalidInput(
        fmt::format("{} values in {} bins of {} positions: expected a value each, and a position "
                    "for every bin",
                    values.size(), bins.n_bins, bins.n_positions));
  std::vector<double> means;
  for (std::int64_t bin = 0; bin < bins.n_bins; ++bin) {
    double sum = 0;
    for (std::int64_t at = bins.begin(bin); at < bins.begin(bin + 1); ++at) sum += values[at];
    means.push_back(sum / static_cast<double>(bins.size(bin)));
  }
  return means;
}

double mean_of_bins(std::span<const double> means, const PositionBins& bins) {
  double sum = 0;
  for (std::int64_t bin = 0; bin < bins.n_bins; ++bin)
    sum += means[bin] * static_cast<double>(bins.size(bin));
  return sum / static_cast<double>(bins.n_positions);
}

std::int64_t longest_stride(const WindowRule& rule) { return rule.length - 1; }

std::vector<TextWindow> text_windows(std::span<const std::int32_t> ids, const WindowRule& rule) {
  if (rule.length < 2)
    throw InvalidInput(fmt::format("windows of {} tokens: expected at least 2", rule.length));
  if (rule.stride < 1 || rule.stride > longest_stride(rule))
    throw InvalidInput(
        fmt::format("a stride of {}: expected 1 to {}, the tokens that a window of {} can score", rule.stride,
                    longest_stride(rule), rule.length));
  const std::int64_t n_text = rule.length - (rule.bos ? 1 : 0);
  std::vector<TextWindow> windows;
  for (std::int64_t first = 0; first + n_text <= std::ssize(ids); first += rule.stride) {
    TextWindow window;
    if (rule.bos) window.ids.push_back(*rule.bos);
    const auto part = ids.subspan(first, n_text);
    window.ids.insert(window.ids.end(), part.begin(), part.end());
    window.first = first;
    window.first_scored = rule.length - rule.stride;
    windows.push_back(std::move(window));
  }
  return windows;
}

}  // namespace keyscope::evaluation
