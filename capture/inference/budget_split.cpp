#include "capture/inference/budget_split.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/slots.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"

namespace keyscope::capture {
namespace {

using analysis::Slots;

double head_number(const nlohmann::json& entry, const std::string& where) {
  if (!entry.is_number() || !(entry.get<double>() > 0))
    throw FileError(fmt::format("{} is {}, expected a number above 0", where, shown_value(entry)));
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

// Rows that the policy's slots protect in every layer, whatever it has.
std::int64_t protected_everywhere(const Slots& slots, std::int64_t budget) {
  std::vector<std::int32_t> positions(budget);
  for (std::size_t row = 0; row < positions.size(); ++row) positions[row] = static_cast<std::int32_t>(row);
  const analysis::LayerCut cut{.budgets = {}, .nominal = budget};
  return std::ssize(analysis::protected_rows(slots.protect, cut, positions, budget));
}

// Heads that have one set of rows have one budget.
void require_even_layers(const ModelConfig& config, const std::vector<double>& weights,
                         const std::string& path) {
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (const std::size_t layer = i / config.n_kv_heads; weights[i] != weights[layer * config.n_kv_heads])
      throw UsageError(fmt::format(
          "{}: the KV heads of layer {} have different weights, and one set of rows; expected one weight for "
          "all of them, or a policy that gives each its own",
          path, layer));
}

// Of the heads of the layers that take part, their weights.
std::vector<std::int64_t> by_weights(const ModelConfig& config, const std::vector<int>& layers,
                                     const std::vector<double>& weights, std::int64_t budget) {
  std::vector<double> of_heads;
  for (const int layer : layers)
    for (int head = 0; head < config.heads(layer).n_kv_heads; ++head)
      of_heads.push_back(weights[std::size_t(layer) * config.n_kv_heads + head]);
  return analysis::dealt_out(of_heads, budget);
}

}  // namespace

std::vector<double> head_numbers(std::string_view text, const std::string& where, const ModelConfig& config) {
  const nlohmann::json json = parse_json(text, 2);
  if (json.is_discarded())
    throw FileError(fmt::format("{}: a JSON array is expected, such as [512, [256, 128]]", where));
  require_size(json, config.n_layers, where, "layer");
  std::vector<double> numbers;
  for (std::size_t layer = 0; layer < json.size(); ++layer) {
    const nlohmann::json& entry = json[layer];
    const std::string entry_name = fmt::format("{}: entry {}", where, layer);
    const int n_here = config.heads(static_cast<int>(layer)).n_kv_heads;
    if (entry.is_array()) require_size(entry, n_here, entry_name, "KV head");
    for (int head = 0; head < config.n_kv_heads; ++head)
      numbers.push_back(
          head_number(entry.is_array() ? entry[std::min(head, n_here - 1)] : entry, entry_name));
  }
  return numbers;
}

std::vector<std::int64_t> split_budgets(const ModelConfig& config, const analysis::Policy& policy,
                                        std::int64_t budget, std::int64_t n_prompt) {
  const Slots& slots = policy.slots();
  const std::vector<int> layers = split_layers(config, policy);
  if (layers.empty() || !slots.splits_layers()) return {};
  const auto n_heads = static_cast<std::ptrdiff_t>(config.n_kv_heads);
  std::vector<std::int64_t> budgets(n_heads * config.n_layers, budget);
  if (slots.split == Slots::Split::kPyramid) {
    const auto of_layers =
        analysis::pyramid_budgets(std::ssize(layers), budget, protected_everywhere(slots, budget), n_prompt);
    for (std::size_t i = 0; i < layers.size(); ++i)
      std::fill_n(budgets.begin() + layers[i] * n_heads, n_heads, of_layers[i]);
  } else {
    const auto weights = head_numbers(read_text_file(slots.split_file), slots.split_file, config);
    if (slots.joint() || policy.needs().last_row_layer) require_even_layers(config, weights, slots.split_file);
    const auto of_heads = by_weights(config, layers, weights, budget);
    auto next = of_heads.begin();
    for (const int layer : layers) {
      const int n_here = config.heads(layer).n_kv_heads;
      for (std::ptrdiff_t head = 0; head < n_heads; ++head)
        budgets[layer * n_heads + head] = *(next + std::min<std::ptrdiff_t>(head, n_here - 1));
      next += n_here;
    }
  }
  for (int layer = 0; layer < config.n_layers; ++layer)
    if (config.borrows(layer))
      std::copy_n(budgets.begin() + config.lender(layer) * n_heads, n_heads,
                  budgets.begin() + layer * n_heads);
  return budgets;
}

std::int64_t rows_uncut(const analysis::Policy& policy, const std::vector<std::int64_t>& budgets,
                        std::int64_t budget) {
  const Slots& slots = policy.slots();
  const std::int64_t least = budgets.empty() ? budget : std::ranges::min(budgets);
  return slots.granularity == Slots::Granularity::kPage ? slots.most_rows(least, 1) : least;
}

void check_slots(const ModelConfig& config, const analysis::PolicySpec& spec, const analysis::Policy& policy,
                 std::int64_t budget) {
  const Slots& slots = policy.slots();
  if (slots.granularity == Slots::Granularity::kPage && budget < slots.page_rows)
    throw UsageError(
        fmt::format("policy {}: granularity=page:{} needs a budget of at least one page; found {} rows",
                    spec.name, slots.page_rows, budget));
  if (policy.needs().last_row_layer && slots.split == Slots::Split::kAdaKv)
    throw UsageError(fmt::format(
        "policy {}: heads=all is one score for all KV heads, and split=adakv gives each rows of its own; expected "
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
