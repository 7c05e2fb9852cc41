// What layers of a model have of their own.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "capture/model/config_fields.hpp"

namespace keyscope::capture {

namespace {

HeadShape checked_shape(const ConfigFields& fields, const char* n_field, const char* dim_field,
                        HeadShape otherwise, int n_heads) {
  HeadShape shape;
  shape.n_kv_heads = static_cast<int>(fields.count_or(n_field, otherwise.n_kv_heads, 1, kMostHeads));
  shape.head_dim = static_cast<int>(fields.count_or(dim_field, otherwise.head_dim, 1, kMostHeads));
  if (n_heads % shape.n_kv_heads != 0)
    fields.fail(n_field, std::to_string(shape.n_kv_heads),
                fmt::format("a divisor of num_attention_heads, which is {}", n_heads));
  if (shape.head_dim % 2 != 0)
    fields.fail(dim_field, std::to_string(shape.head_dim), "an even number, as rotary positions need pairs");
  return shape;
}

// Newer files list what a layer has of its own: {"5": {"head_dim": 512, "num_key_value_heads": 2}}.
void read_listed_heads(const ConfigFields& fields, ModelConfig& config) {
  const ConfigFields listed = fields.inside("per_layer_config");
  for (const auto& [name, value] : listed.json().items()) {
    const bool number = !name.empty() && name.size() < 6 &&
                        std::ranges::all_of(name, [](char digit) { return digit >= '0' && digit <= '9'; });
    if (!number || std::stoi(name) >= config.n_layers)
      listed.fail(name, shown_value(value),
                  fmt::format("layers only, by their numbers from 0 to {}", config.n_layers - 1));
    const ConfigFields own = listed.inside(name);
    for (const auto& [field, entry] : own.json().items())
      if (field != "head_dim" && field != "num_key_value_heads")
        own.fail(field, shown_value(entry), "only head_dim and num_key_value_heads of a single layer");
    HeadShape& heads = config.layer_heads[std::stoi(name)];
    heads = checked_shape(own, "num_key_value_heads", "head_dim", heads, config.n_heads);
  }
}

// Layers that rotate by the same frequencies have heads of the same size.
void check_sizes(const ConfigFields& fields, const ModelConfig& config) {
  for (int layer = 0; layer < config.n_layers; ++layer)
    for (int other = 0; other < layer; ++other)
      if ((config.window(layer) > 0) == (config.window(other) > 0) &&
          config.heads(layer).head_dim != config.heads(other).head_dim)
        fields.fail("per_layer_config",
                    fmt::format("head_dim {} in layer {} and {} in layer {}", config.heads(other).head_dim,
                                other, config.heads(layer).head_dim, layer),
                    "one size for all layers with a window, and one for all without");
}

void read_heads_by_layer(const ConfigFields& fields, const LayerRule& rule, ModelConfig& config) {
  const HeadShape local{config.n_kv_heads, config.head_dim};
  config.keys_as_values = fields.flag_or("attention_k_eq_v", false);
  config.layer_heads.assign(config.n_layers, local);
  if (fields.has("per_layer_config")) {
    read_listed_heads(fields, config);
  } else {
    HeadShape global =
        checked_shape(fields, "num_global_key_value_heads", "global_head_dim",
                      {local.n_kv_heads, static_cast<int>(rule.default_global_head_dim)}, config.n_heads);
    if (!config.keys_as_values) global.n_kv_heads = local.n_kv_heads;
    for (int layer = 0; layer < config.n_layers; ++layer)
      if (config.window(layer) == 0) config.layer_heads[layer] = global;
  }
  check_sizes(fields, config);
  config.n_kv_heads = std::ranges::max(config.layer_heads, {}, &HeadShape::n_kv_heads).n_kv_heads;
  config.head_dim = std::ranges::max(config.layer_heads, {}, &HeadShape::head_dim).head_dim;
}

// The last layers attend to the keys of the last one before them that sees as far as they do.
void read_lenders(const ConfigFields& fields, ModelConfig& config) {
  const auto n_borrowers = static_cast<int>(fields.count_or("num_kv_shared_layers", 0, 0, kMostLayers));
  if (n_borrowers == 0) return;
  const int first = config.n_layers - n_borrowers;
  for (int layer = 0; layer < config.n_layers; ++layer) {
    int lender = layer;
    if (layer >= first)
      for (lender = first - 1; lender >= 0 && config.window(lender) != config.window(layer);) --lender;
    if (lender < 0)
      fields.fail("num_kv_shared_layers", std::to_string(n_borrowers),
                  fmt::format("fewer: no layer of {} is left that sees as far as layer {} does",
                              std::max(first, 0), layer));
    if (config.heads(lender) != config.heads(layer))
      fields.fail("per_layer_config",
                  fmt::format("heads of layer {} that differ from layer {}'s", layer, lender),
                  "the same, as it borrows its keys");
    config.layer_lenders.push_back(lender);
  }
}

}  // namespace

void read_layer_shapes(const ConfigFields& fields, const Family& family, ModelConfig& config) {
  config.value_norm = family.value_norm;
  const LayerRule& rule = family.layers;
  if (rule.default_global_head_dim == 0) return;
  read_heads_by_layer(fields, rule, config);
  read_lenders(fields, config);
  config.wide_borrowers = fields.flag_or("use_double_wide_mlp", false);
  config.layer_scale = true;
  if (fields.is_null("hidden_size_per_layer_input")) return;
  config.layer_input.size =
      fields.count_or("hidden_size_per_layer_input", rule.default_input_size, 0, kLargestSize);
  if (config.layer_input.size == 0) return;
  config.layer_input.vocab_size =
      fields.count_or("vocab_size_per_layer_input", rule.default_input_vocab, 1, kLargestSize);
  if (config.layer_input.vocab_size < config.vocab_size)
    fields.fail("vocab_size_per_layer_input", std::to_string(config.layer_input.vocab_size),
                fmt::format("at least vocab_size, which is {}", config.vocab_size));
}

}  // namespace keyscope::capture
