#include "capture/model/attention_windows.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "capture/model/strict_json.hpp"

namespace keyscope::capture {
namespace {

// 0: none. A null means none, nothing at all means the family's default.
std::int64_t read_size(const ConfigFields& fields, const WindowRule& rule) {
  if (rule.layers == WindowedLayers::kNone) return 0;
  if (!rule.flag.empty() && !fields.flag_or(std::string(rule.flag), false)) return 0;
  if (fields.is_null("sliding_window")) return 0;
  return fields.count_or("sliding_window", rule.size, 1, kLargestSize);
}

// Which layers have a window by the family's rule.
std::vector<bool> by_rule(const ConfigFields& fields, const WindowRule& rule, int n_layers) {
  std::int64_t n = rule.n;
  if (!rule.n_field.empty()) {
    const std::int64_t least = rule.layers == WindowedLayers::kAllButNths ? 1 : 0;
    n = fields.count_or(std::string(rule.n_field), n, least, kLargestSize);
  }
  std::vector<bool> windowed(static_cast<std::size_t>(n_layers), rule.layers == WindowedLayers::kAll);
  for (int layer = 0; layer < n_layers; ++layer)
    if ((rule.layers == WindowedLayers::kFromNth && layer >= n) ||
        (rule.layers == WindowedLayers::kAllButNths && (layer + 1) % n != 0))
      windowed[static_cast<std::size_t>(layer)] = true;
  return windowed;
}

std::vector<bool> by_layer_types(const ConfigFields& fields, int n_layers) {
  const nlohmann::json& list = fields.at("layer_types");
  if (!list.is_array() || list.size() != static_cast<std::size_t>(n_layers))
    fields.fail("layer_types", list.dump(), fmt::format("a list of {}, one per layer", n_layers));
  std::vector<bool> windowed;
  for (const nlohmann::json& type : list) {
    if (type != "full_attention" && type != "sliding_attention")
      fields.fail("layer_types", type.is_string() ? shown(type.get<std::string>()) : type.dump(),
                  "full_attention or sliding_attention in every place");
    windowed.push_back(type == "sliding_attention");
  }
  return windowed;
}

// Families that have windows nowhere or everywhere do not look at `layer_types`.
void refuse_contradiction(const ConfigFields& fields, const WindowRule& rule,
                          const std::vector<bool>& windowed, std::int64_t size) {
  const bool everywhere = rule.layers == WindowedLayers::kAll && size > 0;
  if (rule.layers != WindowedLayers::kNone && rule.layers != WindowedLayers::kAll) return;
  if (std::ranges::any_of(windowed, [&](bool has) { return has != everywhere; }))
    fields.fail("layer_types", fields.at("layer_types").dump(),
                fmt::format("{} in every place, as in all models of this family",
                            everywhere ? "sliding_attention" : "full_attention"));
}

}  // namespace

void read_windows(const ConfigFields& fields, const Family& family, ModelConfig& config) {
  const WindowRule& rule = family.window;
  const std::int64_t size = read_size(fields, rule);
  const bool listed = fields.has("layer_types");
  const std::vector<bool> windowed =
      listed ? by_layer_types(fields, config.n_layers) : by_rule(fields, rule, config.n_layers);
  if (listed) refuse_contradiction(fields, rule, windowed, size);
  if (std::ranges::find(windowed, true) == windowed.end()) return;
  // Without a size the rule speaks of no layer, unless its windows are not for choice.
  if (size == 0 && !listed && rule.layers != WindowedLayers::kAllButNths) return;
  if (size == 0)
    fields.fail("sliding_window", "nothing or switched off",
                "a number, as there are layers with sliding_attention");
  for (const bool has : windowed) config.layer_windows.push_back(has ? size : 0);
}

}  // namespace keyscope::capture
