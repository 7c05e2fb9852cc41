#include "capture/model/products.hpp"

#include <algorithm>

namespace keyscope::capture {

namespace {

// What a layer without attention does to a token.
double recurrent_products(const ModelConfig& config) {
  const RecurrentConfig& about = config.recurrent;
  const auto hidden = static_cast<double>(config.hidden_size);
  const double values = static_cast<double>(about.n_value_heads) * about.value_dim;
  return hidden * (static_cast<double>(about.n_channels()) + 2 * values) +
         3 * static_cast<double>(about.state_size());
}

double latent_products(const ModelConfig& config) {
  const LatentConfig& about = config.latent;
  const auto hidden = static_cast<double>(config.hidden_size), n_heads = static_cast<double>(config.n_heads);
  const auto rank = static_cast<double>(about.rank), query_rank = static_cast<double>(about.query_rank);
  const double queries = n_heads * (about.plain_dim + about.rotated_dim);
  const double of_queries = query_rank > 0 ? query_rank * (hidden + queries) : hidden * queries;
  return of_queries + hidden * (rank + about.rotated_dim) +
         n_heads * rank * (about.plain_dim + about.value_dim) + n_heads * about.value_dim * hidden;
}

double attention_products(const ModelConfig& config, int layer) {
  const auto hidden = static_cast<double>(config.hidden_size);
  const auto [n_kv_heads, head_dim] = config.heads(layer);
  const double queries = static_cast<double>(config.n_heads) * head_dim;
  const double keys = static_cast<double>(n_kv_heads) * head_dim;
  const double n_of_keys = config.borrows(layer)                                ? 0
                           : config.keys_as_values && config.window(layer) == 0 ? 1
                                                                                : 2;
  return hidden * (2 * queries + n_of_keys * keys + (config.attention_gate ? queries : 0));
}

double feed_forward_products(const ModelConfig& config, int layer) {
  const auto hidden = static_cast<double>(config.hidden_size);
  const double dense = 3 * hidden * static_cast<double>(config.mlp_size(layer));
  if (!config.has_experts(layer)) return dense;
  const ExpertsConfig& experts = config.experts;
  return 3 * hidden *
             static_cast<double>(experts.per_token * experts.intermediate_size +
                                 experts.shared_intermediate_size) +
         hidden * experts.n + (experts.beside_dense ? dense : 0);
}

}  // namespace

double token_products(const ModelConfig& config) {
  double products = 0;
  for (int layer = 0; layer < config.n_layers; ++layer) {
    if (!config.attends(layer))
      products += recurrent_products(config);
    else
      products += config.latent.rank > 0 ? latent_products(config) : attention_products(config, layer);
    products += feed_forward_products(config, layer) +
                3 * static_cast<double>(config.hidden_size) * static_cast<double>(config.layer_input.size);
  }
  return products;
}

std::int64_t feed_forward_size(const ModelConfig& config) {
  const bool dense = config.layer_experts.empty() ||
                     std::ranges::find(config.layer_experts, false) != config.layer_experts.end();
  if (config.wide_borrowers) return 2 * config.intermediate_size;
  return dense || config.experts.beside_dense ? config.intermediate_size : config.experts.intermediate_size;
}

}  // namespace keyscope::capture
