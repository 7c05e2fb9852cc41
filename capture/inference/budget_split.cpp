#include "capture/inference/budget_split.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/slot_selection.hpp"
#include "analysis/policies/slots.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"

namespace keyscope::capture {
namespace {

using analysis::Slots;

double head_number(const nlohmann::json& entry, const std::string& where, HeadNumbers kind) {
  const bool rows = kind == HeadNumbers::kRows;
  const bool fits = rows ? entry.is_number_integer() && entry.get<double>() <= analysis::kMostBudgetRows
                         : entry.is_number();
  if (!fits || !(entry.get<double>() > 0))
    throw FileError(fmt::format("{} is {}, expected a number {}", where, shown_value(entry),
                                rows ? "of rows from 1" : "above 0"));
  return entry.get<double>();
}

void require_size(const nlohmann::json& list, int n, const std::string& where, const char* of_what) {
  if (!list.is_array() || list.size() != static_cast<std::size_t>(n))
    throw FileError(fmt::format(
        "{} is {}, expected {} entries, one per {} of the model", where,
        list.is_array() ? fmt::format("a list of {}", list.size()) : shown_value(list), n, of_what));
}

// Layers that hold keys of their own and are evicted.
std::vector<int> split_layers(const ModelConfig& config, const analysis::Policy& policy) {
  std::vector<int> layers;
  for (int layer = 0; layer < config.n_layers; ++layer)
    if (config.attends(layer) && !config.borrows(layer) && policy.evicts(layer)) layers.push_back(layer);
  return layers;
}

// (n_layers · n_kv_heads) the heads that keep all their rows. What a layer's heads leave over repeats its
// last.
std::vector<bool> whole_heads(const ModelConfig& config, const analysis::Policy& policy) {
  std::vector<bool> whole;
  for (int layer = 0; layer < config.n_layers; ++layer)
    for (int head = 0; head < config.n_kv_heads; ++head)
      whole.push_back(policy.keeps_all(layer, std::min(head, config.heads(layer).n_kv_heads - 1)));
  return whole;
}

// Heads that have one set of rows have one weight: N of each layer.
std::vector<std::int64_t> by_layer_weights(const ModelConfig& config, const std::vector<int>& layers,
                                           const std::vector<double>& weights, const std::string& path,
                                           std::int64_t budget) {
  const auto n_heads = static_cast<std::size_t>(config.n_kv_heads);
  std::vector<double> of_layers;
  for (const int layer : layers) {
    const std::span<const double> own(weights.data() + layer * n_heads, n_heads);
    if (std::ranges::count(own, own.front()) != std::ssize(own))
      throw UsageError(fmt::format(
          "{}: the KV heads of layer {} have different weights, and one set of rows; expected one weight for "
          "all of them, or a policy that gives each its own",
          path, layer));
    of_layers.push_back(own.front());
  }
  return analysis::dealt_out(of_layers, budget);
}

// Of each KV head its own N by its weight; what a layer's heads leave over of a row repeats its last.
void give_heads(const ModelConfig& config, const std::vector<int>& layers, const std::vector<double>& weights,
                std::int64_t budget, std::vector<std::int64_t>& budgets) {
  const auto n_heads = static_cast<std::size_t>(config.n_kv_heads);
  std::vector<double> of_heads;
  for (const int layer : layers)
    for (int head = 0; head < config.heads(layer).n_kv_heads; ++head)
      of_heads.push_back(weights[layer * n_heads + head]);
  const auto dealt = analysis::dealt_out(of_heads, budget);
  std::size_t first = 0;
  for (const int layer : layers) {
    const auto n_here = static_cast<std::size_t>(config.heads(layer).n_kv_heads);
    for (std::size_t head = 0; head < n_heads; ++head)
      budgets[layer * n_heads + head] = dealt[first + std::min(head, n_here - 1)];
    first += n_here;
  }
}

}  // namespace

std::vector<double> head_numbers(std::string_view text, const std::string& where, const ModelConfig& config,
                                 HeadNumbers kind) {
  const nlohmann::json json = parse_json(text, 2);
  if (json.is_discarded())
    throw FileError(fmt::format("{}: a JSON array of {} is expected, such as [512, [256, 128]]", where,
                                kind == HeadNumbers::kRows ? "budgets" : "weights"));
  require_size(json, config.n_layers, where, "layer");
  std::vector<double> numbers;
  for (std::size_t layer = 0; layer < json.size(); ++layer) {
    const nlohmann::json& entry = json[layer];
    const std::string entry_name = fmt::format("{}: entry {}", where, layer);
    const int n_here = config.heads(static_cast<int>(layer)).n_kv_heads;
    if (entry.is_array()) require_size(entry, n_here, entry_name, "KV head");
    for (int head = 0; head < config.n_kv_heads; ++head)
      numbers.push_back(
          head_number(entry.is_array() ? entry[std::min(head, n_here - 1)] : entry, entry_name, kind));
  }
  return numbers;
}

std::vector<std::int64_t> split_budgets(const ModelConfig& config, const analysis::Policy& policy,
                                        std::int64_t budget, std::int64_t n_prompt) {
  const Slots& slots = policy.slots();
  const std::vector<int> layers = split_layers(config, policy);
  if (layers.empty() || (!slots.splits_layers() && !keeps_whole_heads(config, policy))) return {};
  const auto n_heads = static_cast<std::ptrdiff_t>(config.n_kv_heads);
  std::vector<std::int64_t> budgets(n_heads * config.n_layers, budget);
  const auto give_layers = [&](const std::vector<std::int64_t>& of_layers) {
    for (std::size_t i = 0; i < layers.size(); ++i)
      std::fill_n(budgets.begin() + layers[i] * n_heads, n_heads, of_layers[i]);
  };
  if (slots.split == Slots::Split::kPyramid) {
    give_layers(analysis::pyramid_budgets(std::ssize(layers), budget,
                                          analysis::protected_everywhere(slots.protect, budget), n_prompt));
  } else if (slots.split == Slots::Split::kFile) {
    const auto weights =
        head_numbers(read_text_file(slots.split_file), slots.split_file, config, HeadNumbers::kWeights);
    if (slots.joint() || policy.needs().last_row_layer)
      give_layers(by_layer_weights(config, layers, weights, slots.split_file, budget));
    else
      give_heads(config, layers, weights, budget, budgets);
  }
  const std::vector<bool> whole = whole_heads(config, policy);
  for (std::size_t head = 0; head < whole.size(); ++head)
    if (whole[head]) budgets[head] = kAllRows;
  for (int layer = 0; layer < config.n_layers; ++layer)
    if (config.borrows(layer))
      std::copy_n(budgets.begin() + config.lender(layer) * n_heads, n_heads,
                  budgets.begin() + layer * n_heads);
  return budgets;
}

bool keeps_whole_heads(const ModelConfig& config, const analysis::Policy& policy) {
  const std::vector<bool> whole = whole_heads(config, policy);
  return std::ranges::find(whole, true) != whole.end();
}

std::int64_t rows_uncut(const analysis::Policy& policy, const std::vector<std::int64_t>& budgets,
                        std::int64_t budget) {
  return policy.slots().most_rows(budgets.empty() ? budget : std::ranges::min(budgets));
}

void check_slots(const ModelConfig& config, const analysis::PolicySpec& spec, const analysis::Policy& policy,
                 std::int64_t budget) {
  const Slots& slots = policy.slots();
  if (slots.granularity == Slots::Granularity::kPage && budget < slots.page_rows)
    throw UsageError(
        fmt::format("policy {}: granularity=page:{} needs a budget of at least one page; found {} rows",
                    spec.name, slots.page_rows, budget));
  const bool shared = slots.deals_among_heads() || slots.deals_by_block();
  if ((slots.joint() || shared) && keeps_whole_heads(config, policy))
    throw UsageError(fmt::format(
        "policy {}: heads that keep everything share neither rows nor a budget with others; found {}={}, "
        "expected {}",
        spec.name, slots.joint() ? "granularity" : "split",
        policy.spec().options.at(slots.joint() ? "granularity" : "split"),
        slots.joint() ? "granularity=head" : "split=uniform"));
  if (policy.needs().last_row_layer && slots.split == Slots::Split::kAdaKv)
    throw UsageError(
        fmt::format("policy {}: heads=all is one score for all KV heads, and split=adakv gives each rows of "
                    "its own; expected "
                    "heads=group, or split=uniform",
                    spec.name));
  if (slots.granularity != Slots::Granularity::kModel) return;
  bool alike = config.layer_windows.empty();
  for (int layer = 0; layer < config.n_layers && alike; ++layer)
    alike = !config.attends(layer) || policy.evicts(layer);
  if (!alike)
    throw UsageError(fmt::format(
        "policy {}: granularity=model is one set of rows for all layers, and some of this model's layers "
        "hold "
        "other rows (a sliding window, or layers that the policy leaves alone); expected granularity=layer",
        spec.name));
}

}  // namespace keyscope::capture
