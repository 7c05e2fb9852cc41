#include "app/results/prompts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/statistics.hpp"
#include "app/figures/axis_ticks.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"

namespace keyscope::results {

namespace {

using nlohmann::json;

// Of the words that people recognise a prompt by.
constexpr std::size_t kShownTokens = 40;

std::string text_field(const json& row, const char* field, const std::string& where) {
  if (!row[field].is_string())
    throw FileError(fmt::format("{}: \"{}\" is {}; expected a text", where, field, row[field].type_name()));
  return row[field].get<std::string>();
}

std::vector<std::int32_t> read_ids(const json& row, const tokenizer::FolderTokenizer& tokenizer,
                                   const std::string& where) {
  const bool text = row.contains("prompt"), ids = row.contains("ids");
  if (text == ids)
    throw FileError(fmt::format(
        "{}: {}; expected one of \"prompt\" (a text) and \"ids\" (token ids)", where,
        text ? "both \"prompt\" and \"ids\" are there" : "neither \"prompt\" nor \"ids\" is there"));
  if (ids) return tokenizer::ids_from_json(row["ids"], where + ": \"ids\"");
  const std::string prompt = text_field(row, "prompt", where);
  if (prompt.empty()) throw FileError(fmt::format("{}: \"prompt\" is empty; expected a text", where));
  return tokenizer.require(fmt::format("{}: \"prompt\" is a text; expected \"ids\"", where))
      .encode(prompt, true);
}

void check_ids(const std::vector<std::int32_t>& ids, const capture::ModelConfig& model,
               const std::string& where) {
  if (ids.empty())
    throw FileError(fmt::format("{}: the prompt is empty; expected at least one token", where));
  if (std::ssize(ids) > model.context_length)
    throw FileError(
        fmt::format("{}: the prompt has {} tokens, and the model's context is {}; shorten it, or all of them "
                    "with --max-tokens",
                    where, ids.size(), model.context_length));
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] >= model.vocab_size)
      throw FileError(fmt::format("{}: prompt token {} is id {}, and the model's vocabulary has ids 0 to {}",
                                  where, i, ids[i], model.vocab_size - 1));
}

Prompt read_row(const std::string& text, std::int64_t line, const std::string& where,
                const capture::ModelConfig& model, const tokenizer::FolderTokenizer& tokenizer,
                std::optional<std::int64_t> max_tokens) {
  if (text.find_first_not_of(" \t\r") == std::string::npos)
    throw FileError(fmt::format("{}: the line is empty; expected a JSON object with \"prompt\"", where));
  const json row = parse_json_object(text, where);
  Prompt prompt;
  prompt.line = line;
  prompt.name = row.contains("name") ? text_field(row, "name", where) : fmt::format("line {}", line);
  prompt.ids = read_ids(row, tokenizer, where);
  if (max_tokens && std::ssize(prompt.ids) > *max_tokens) prompt.ids.resize(*max_tokens);
  check_ids(prompt.ids, model, where);
  if (tokenizer.get() != nullptr)
    prompt.beginning =
        tokenizer.get()->decode(std::span(prompt.ids).first(std::min(prompt.ids.size(), kShownTokens)), true);
  return prompt;
}

}  // namespace

std::vector<Prompt> read_prompts(const std::filesystem::path& path, const capture::ModelConfig& model,
                                 const tokenizer::FolderTokenizer& tokenizer,
                                 std::optional<std::int64_t> max_tokens) {
  std::ifstream file = open_file(path, "a file of prompts");
  std::vector<Prompt> prompts;
  std::map<std::vector<std::int32_t>, std::int64_t> seen;  // on which line
  std::string text;
  for (std::int64_t line = 1; std::getline(file, text); ++line) {
    const std::string where = fmt::format("{}, line {}", path.string(), line);
    prompts.push_back(read_row(text, line, where, model, tokenizer, max_tokens));
    const auto [first, is_new] = seen.emplace(prompts.back().ids, line);
    if (!is_new)
      throw FileError(
          fmt::format("{}: the same tokens as on line {}, which would count twice; expected every "
                      "prompt once",
                      where, first->second));
  }
  require_read(file, path.string());
  if (prompts.empty())
    throw FileError(fmt::format("{}: there is no prompt; expected a JSON object a line", path.string()));
  return prompts;
}

namespace {

recording::TokenText all_tokens(std::span<const Prompt> prompts, const tokenizer::Tokenizer* tokenizer) {
  recording::TokenText all{{}, "", {0}};
  for (const Prompt& prompt : prompts) {
    recording::TokenText one{prompt.ids, "", std::vector<std::int64_t>(prompt.ids.size() + 1)};
    if (tokenizer != nullptr) one = tokenizer->token_text(prompt.ids);
    const auto before = static_cast<std::int64_t>(all.text.size());
    all.id.insert(all.id.end(), one.id.begin(), one.id.end());
    all.text += one.text;
    for (std::size_t i = 1; i < one.offset.size(); ++i) all.offset.push_back(before + one.offset[i]);
  }
  return all;
}

std::string sha256_of(const std::vector<std::int32_t>& ids) {
  Sha256 hash;
  hash.add({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(ids.front())});
  return hash.hex();
}

}  // namespace

recording::Origin prompts_origin(const capture::Model& model, const std::string& model_name,
                                 std::span<const Prompt> prompts, recording::Provenance provenance) {
  recording::Origin origin;
  origin.prompt = all_tokens(prompts, model.tokenizer());
  const capture::ModelConfig& config = model.config();
  provenance.prompt_sha256 = sha256_of(origin.prompt.id);
  provenance.quantisation = config.quantisation.description();
  origin.provenance = std::move(provenance);
  origin.model = capture::model_info(config, model_name);
  return origin;
}

namespace {

using figures::Figure;
using figures::LineSeries;
using figures::Panel;

constexpr std::int64_t kMostBins = 20;
constexpr int kCurvePoints = 200;

void require_lengths(std::span<const std::int64_t> lengths) {
  if (lengths.empty()) throw InvalidInput("prompt lengths: none are given; expected at least one");
  for (const std::int64_t length : lengths)
    if (length < 1) throw InvalidInput(fmt::format("prompt lengths: {} tokens; expected 1 or more", length));
}

// The smallest of 1, 2, 5, 10, 20, ... with which so many tokens fit into the bins.
std::int64_t bin_width(std::int64_t least, std::int64_t most) {
  for (std::int64_t power = 1;; power *= 10)
    for (const std::int64_t step : {1, 2, 5})
      if (most / (step * power) - least / (step * power) < kMostBins) return step * power;
}

Panel histogram_panel(const PromptLengths& lengths) {
  Panel panel;
  panel.id = "histogram";
  panel.x = {"prompt length", "tokens", {}, true};
  panel.y = {"prompts", "", {}, true};
  panel.note =
      fmt::format("median {}, 95th percentile {}, longest {}", format_count(std::llround(lengths.median)),
                  format_count(std::llround(lengths.p95)), format_count(lengths.most));
  LineSeries outline;
  outline.id = "prompts";
  outline.colour = figures::kBlue;
  const auto add = [&](std::int64_t x, std::int64_t y) {
    outline.x.push_back(static_cast<float>(x));
    outline.y.push_back(static_cast<float>(y));
  };
  add(lengths.bins.front().first, 0);
  for (const LengthBin& bin : lengths.bins) {
    add(bin.first, bin.n_prompts);
    add(bin.end, bin.n_prompts);
  }
  add(lengths.bins.back().end, 0);
  figures::BandSeries filled{"prompts", "filled", figures::kBlue, outline.x, {}, outline.y};
  filled.low.assign(outline.x.size(), 0);
  panel.lines.push_back(std::move(outline));
  panel.bands.push_back(std::move(filled));
  return panel;
}

Panel ratio_panel(const PromptLengths& lengths) {
  Panel panel;
  panel.id = "compression";
  panel.x = {"budget N", "tokens", {}, true};
  panel.y.label = "mean of min(1, N / length)";
  panel.note = "share of a prompt that the cache keeps, mean over prompts";
  LineSeries curve;
  curve.id = "curve";
  curve.colour = figures::kBlue;
  const std::int64_t end = std::max(lengths.most, *std::ranges::max_element(lengths.budgets));
  for (int i = 1; i <= kCurvePoints; ++i) {
    const std::int64_t budget = std::max<std::int64_t>(1, end * i / kCurvePoints);
    curve.x.push_back(static_cast<float>(budget));
    curve.y.push_back(static_cast<float>(mean_compression_ratio(lengths.lengths, budget)));
  }
  figures::PointSeries marks;
  marks.id = "budgets";
  marks.colour = figures::kVermillion;
  marks.size_px = 7;
  for (std::size_t i = 0; i < lengths.budgets.size(); ++i) {
    marks.label += fmt::format("{}N = {}: {:.3f}", i > 0 ? ", " : "", format_count(lengths.budgets[i]),
                               lengths.ratios[i]);
    marks.x.push_back(static_cast<float>(lengths.budgets[i]));
    marks.y.push_back(static_cast<float>(lengths.ratios[i]));
  }
  panel.lines.push_back(std::move(curve));
  panel.points.push_back(std::move(marks));
  return panel;
}

}  // namespace

double mean_compression_ratio(std::span<const std::int64_t> lengths, std::int64_t budget) {
  require_lengths(lengths);
  if (budget < 1) throw InvalidInput(fmt::format("a budget of {} tokens; expected 1 or more", budget));
  double sum = 0;
  for (const std::int64_t length : lengths)
    sum += std::min(1.0, static_cast<double>(budget) / static_cast<double>(length));
  return sum / static_cast<double>(lengths.size());
}

std::vector<LengthBin> bin_lengths(std::span<const std::int64_t> lengths) {
  require_lengths(lengths);
  const auto [least, most] = std::ranges::minmax(lengths);
  const std::int64_t width = bin_width(least, most);
  std::vector<LengthBin> bins;
  for (std::int64_t first = least / width * width; first <= most; first += width)
    bins.push_back({first, first + width, 0});
  for (const std::int64_t length : lengths) ++bins[length / width - least / width].n_prompts;
  return bins;
}

PromptLengths measure_lengths(std::vector<std::int64_t> lengths, std::vector<std::int64_t> budgets) {
  PromptLengths measured;
  measured.bins = bin_lengths(lengths);
  measured.least = std::ranges::min(lengths);
  measured.most = std::ranges::max(lengths);
  const std::vector<double> values(lengths.begin(), lengths.end());
  measured.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  const auto at = analysis::quantiles(values, std::array{0.5, 0.95});
  measured.median = at[0];
  measured.p95 = at[1];
  for (const std::int64_t budget : budgets)
    measured.ratios.push_back(mean_compression_ratio(lengths, budget));
  measured.budgets = std::move(budgets);
  measured.lengths = std::move(lengths);
  return measured;
}

Figure prompt_lengths_figure(const PromptLengths& lengths, const std::string& source) {
  Figure figure;
  figure.name = "prompt-lengths";
  figure.title = "Lengths of the prompts";
  figure.columns = 2;
  figure.panels.push_back(histogram_panel(lengths));
  if (!lengths.budgets.empty()) {
    figure.title = "Lengths of the prompts, and what budgets keep of them";
    figure.panels.push_back(ratio_panel(lengths));
  }
  figure.caption = fmt::format("{}, {} prompts, {} tokens in a bin.", source,
                               format_count(static_cast<long long>(lengths.lengths.size())),
                               format_count(lengths.bins.front().end - lengths.bins.front().first));
  return figure;
}

}  // namespace keyscope::results
