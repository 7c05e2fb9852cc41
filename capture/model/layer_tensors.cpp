#include "capture/model/layer_tensors.hpp"

#include <set>
#include <utility>

#include <fmt/format.h>

namespace keyscope::capture {

namespace {

// Without what stands before them.
constexpr std::string_view kEmbedding = "embed_tokens.weight";
constexpr std::string_view kHead = "lm_head.weight";

// What stands before the embedding, or where a tied one is stored as the head alone, before the first layer.
std::string decoder_prefix(const StoredWeights& stored) {
  for (const std::string_view last : {kEmbedding, std::string_view("layers.0.self_attn.o_proj.weight")}) {
    std::set<std::string> prefixes;
    for (const auto& [name, tensor] : stored.tensors())
      if (name.ends_with(last)) prefixes.insert(name.substr(0, name.size() - last.size()));
    std::erase_if(prefixes,
                  [](const std::string& prefix) { return !prefix.empty() && prefix.back() != '.'; });
    if (prefixes.size() == 1) return *prefixes.begin();
  }
  return "model.";
}

}  // namespace

TensorNames tensor_names(const StoredWeights& stored) {
  TensorNames names;
  names.decoder = decoder_prefix(stored);
  names.embedding = names.decoder + std::string(kEmbedding);
  names.head = kHead;  // beside the decoder
  if (names.decoder.size() > std::string_view("model.").size() && names.decoder.ends_with(".model.")) {
    const std::string beside = names.decoder.substr(0, names.decoder.size() - 6) + names.head;
    if (stored.find(names.head) == nullptr && stored.find(beside) != nullptr) names.head = beside;
  }
  return names;
}

LayerTensors::LayerTensors(LayerWeights& layer, const ModelConfig& config, const StoredWeights& stored,
                           const std::string& decoder, int index)
    : config_(config),
      family_(*find_family(config.model_type)),
      stored_(stored),
      prefix_(fmt::format("{}{}{}.", decoder, kLayers, index)),
      index_(index),
      d_(config.hidden_size) {
  if (config.latent.rank > 0)
    add_latent(layer);
  else if (config.attends(index))
    add_attention(layer);
  else
    add_recurrent(layer);
  add_norm(layer.attention_norm, family_.norms.attention);
  add_norm(layer.attention_post_norm, family_.norms.after_attention);
  add_norm(layer.mlp_norm, family_.norms.mlp);
  add_norm(layer.mlp_post_norm, family_.norms.after_mlp);
  add_feed_forward(layer);
  if (const std::int64_t size = config.layer_input.size; size > 0) {
    add(layer.input_gate, "per_layer_input_gate.weight", {size, d_});
    add(layer.input_projection, "per_layer_projection.weight", {d_, size});
    add_norm(layer.input_post_norm, "post_per_layer_input_norm");
  }
  if (config.layer_scale) add(layer.layer_scale, "layer_scalar", {1});
}

void LayerTensors::add_feed_forward(LayerWeights& layer) {
  const bool experts = config_.has_experts(index_);
  if (experts) add_experts(layer);
  if (experts && config_.experts.beside_dense) add_beside_dense(layer);
  if (experts && !config_.experts.beside_dense) return;
  add_mlp(layer.mlp, only_shared() ? family_.experts.shared : family_.mlp, config_.mlp_size(index_));
}

void LayerTensors::add_beside_dense(LayerWeights& layer) {
  add(layer.router_norm, "router.scale", {d_});
  add(layer.expert_scale, "router.per_expert_scale", {config_.experts.n});
  tensors_.back().wide = true;
  add_norm(layer.experts_norm, "pre_feedforward_layernorm_2");
  add_norm(layer.experts_post_norm, "post_feedforward_layernorm_2");
  add_norm(layer.dense_post_norm, "post_feedforward_layernorm_1");
}

void LayerTensors::add_attention(LayerWeights& layer) {
  const auto [n_kv_heads, head_dim] = config_.heads(index_);
  const std::int64_t wide = std::int64_t{config_.n_heads} * head_dim;
  const std::int64_t narrow = std::int64_t{n_kv_heads} * head_dim;
  const bool borrows = config_.borrows(index_);
  if (config_.attention_gate) {
    // Rows of each head: its query's, then its gate's.
    interleave("self_attn.q_proj.weight", d_, config_.n_heads,
               {{&layer.wq, head_dim}, {&layer.wgate, head_dim}});
    add(layer.wk, "self_attn.k_proj.weight", {narrow, d_});
    add(layer.wv, "self_attn.v_proj.weight", {narrow, d_});
  } else if (family_.fused_qkv) {
    fuse("self_attn.qkv_proj.weight", d_, {{&layer.wq, wide}, {&layer.wk, narrow}, {&layer.wv, narrow}});
  } else {
    add(layer.wq, "self_attn.q_proj.weight", {wide, d_});
    if (!borrows) add(layer.wk, "self_attn.k_proj.weight", {narrow, d_});
    if (!borrows && !(config_.keys_as_values && config_.window(index_) == 0))
      add(layer.wv, "self_attn.v_proj.weight", {narrow, d_});
  }
  add(layer.wo, "self_attn.o_proj.weight", {d_, wide});
  if (config_.qkv_bias) {
    if (config_.attention_gate)
      interleave("self_attn.q_proj.bias", 0, config_.n_heads,
                 {{&layer.bq, head_dim}, {&layer.bgate, head_dim}});
    else
      add(layer.bq, "self_attn.q_proj.bias", {wide});
    add(layer.bk, "self_attn.k_proj.bias", {narrow});
    add(layer.bv, "self_attn.v_proj.bias", {narrow});
  }
  if (config_.output_bias) add(layer.bo, "self_attn.o_proj.bias", {d_});
  if (family_.head_norm != HeadNorm::kNone) {
    const bool each = family_.head_norm == HeadNorm::kEachHead;
    add(layer.query_norm, "self_attn.q_norm.weight", {each ? head_dim : wide});
    if (!borrows) add(layer.key_norm, "self_attn.k_norm.weight", {each ? head_dim : narrow});
  }
  if (borrows)
    for (const char* module : {"k_proj", "v_proj", "k_norm", "v_norm"})
      unread_.push_back(fmt::format("{}self_attn.{}", prefix_, module));
  if (config_.attention_sinks) add(layer.sinks, "self_attn.sinks", {config_.n_heads});
}

void LayerTensors::add_latent(LayerWeights& layer) {
  const LatentConfig& about = config_.latent;
  LatentWeights& weights = layer.latent;
  const std::int64_t n = config_.n_heads, wide = n * (about.plain_dim + about.rotated_dim);
  if (about.query_rank > 0) {
    add(weights.query_down, "self_attn.q_a_proj.weight", {about.query_rank, d_});
    if (config_.qkv_bias) add(weights.query_down_bias, "self_attn.q_a_proj.bias", {about.query_rank});
    add(weights.query_norm, "self_attn.q_a_layernorm.weight", {about.query_rank});
    add(weights.query_up, "self_attn.q_b_proj.weight", {wide, about.query_rank});
  } else {
    add(weights.query_up, "self_attn.q_proj.weight", {wide, d_});
  }
  const std::int64_t cached = about.rank + about.rotated_dim;
  add(weights.key_down, "self_attn.kv_a_proj_with_mqa.weight", {cached, d_});
  if (config_.qkv_bias) add(weights.key_down_bias, "self_attn.kv_a_proj_with_mqa.bias", {cached});
  add(weights.key_norm, "self_attn.kv_a_layernorm.weight", {about.rank});
  add(weights.key_up, "self_attn.kv_b_proj.weight", {n * (about.plain_dim + about.value_dim), about.rank});
  add(layer.wo, "self_attn.o_proj.weight", {d_, n * about.value_dim});
  if (config_.output_bias) add(layer.bo, "self_attn.o_proj.bias", {d_});
}

void LayerTensors::add_recurrent(LayerWeights& layer) {
  const RecurrentConfig& about = config_.recurrent;
  RecurrentWeights& weights = layer.recurrent;
  const std::int64_t n = about.n_value_heads, wide = n * about.value_dim;
  if (family_.recurrent == RecurrentLayers::kByParts) {
    add(weights.mixed, "linear_attn.in_proj_qkv.weight", {about.n_channels(), d_});
    add(weights.gate, "linear_attn.in_proj_z.weight", {wide, d_});
    add(weights.update, "linear_attn.in_proj_b.weight", {n, d_});
    add(weights.decay, "linear_attn.in_proj_a.weight", {n, d_});
  } else {
    const std::int64_t of_each = n / about.n_key_heads, values = of_each * about.value_dim;
    interleave("linear_attn.in_proj_qkvz.weight", d_, about.n_key_heads,
               {{&weights.mixed, about.key_dim},
                {&weights.mixed, about.key_dim},
                {&weights.mixed, values},
                {&weights.gate, values}});
    interleave("linear_attn.in_proj_ba.weight", d_, about.n_key_heads,
               {{&weights.update, of_each}, {&weights.decay, of_each}});
  }
  add(weights.kernel, "linear_attn.conv1d.weight", {about.n_channels(), 1, about.kernel});
  add(weights.decay_rate, "linear_attn.A_log", {n});
  add(weights.decay_bias, "linear_attn.dt_bias", {n});
  add(weights.norm, "linear_attn.norm.weight", {about.value_dim});
  add(layer.wo, "linear_attn.out_proj.weight", {d_, wide});
}

void LayerTensors::add_norm(at::Tensor& target, std::string_view name) {
  if (!name.empty()) add(target, fmt::format("{}.weight", name), {d_});
}

void LayerTensors::add_mlp(MlpWeights& mlp, const MlpNames& names, std::int64_t f) {
  const auto name = [&](std::string_view part, const char* kind) {
    return fmt::format("{}{}.{}", names.prefix, part, kind);
  };
  if (names.gate_up.empty()) {
    add(mlp.gate, name(names.gate, "weight"), {f, d_});
    add(mlp.up, name(names.up, "weight"), {f, d_});
  } else {
    fuse(name(names.gate_up, "weight"), d_, {{&mlp.gate, f}, {&mlp.up, f}});
  }
  add(mlp.down, name(names.down, "weight"), {d_, f});
  if (!config_.mlp_bias) return;
  add(mlp.gate_bias, name(names.gate, "bias"), {f});
  add(mlp.up_bias, name(names.up, "bias"), {f});
  add(mlp.down_bias, name(names.down, "bias"), {d_});
}

void LayerTensors::add_experts(LayerWeights& layer) {
  const ExpertsRule& rule = family_.experts;
  const std::int64_t n = config_.experts.n, f = config_.experts.intermediate_size;
  add(layer.router, fmt::format("{}{}.weight", rule.prefix, rule.router_name), {n, d_});
  tensors_.back().wide = rule.wide_router;
  if (!rule.router_bias.empty()) {
    add(layer.router_bias, fmt::format("{}{}.{}", rule.prefix, rule.router_name, rule.router_bias), {n});
    tensors_.back().wide = rule.wide_router;
  }
  if (all_in_one()) {
    want_expert(rule.all_gate_up, rule.transposed ? Shape{n, d_, 2 * f} : Shape{n, 2 * f, d_});
    want_expert(rule.all_down, rule.transposed ? Shape{n, f, d_} : Shape{n, d_, f});
    if (rule.biases) {
      want_expert(fmt::format("{}_bias", rule.all_gate_up), {n, 2 * f});
      want_expert(fmt::format("{}_bias", rule.all_down), {n, d_});
    }
  } else {
    for (int expert = 0; expert < n; ++expert) {
      want_expert(part_of(expert, rule.names.gate), {f, d_});
      want_expert(part_of(expert, rule.names.up), {f, d_});
      want_expert(part_of(expert, rule.names.down), {d_, f});
      if (!rule.biases) continue;
      want_expert(part_of(expert, rule.names.gate, "bias"), {f});
      want_expert(part_of(expert, rule.names.up, "bias"), {f});
      want_expert(part_of(expert, rule.names.down, "bias"), {d_});
    }
  }
  if (config_.experts.shared_intermediate_size == 0) return;
  MlpNames shared = rule.shared;
  const std::string prefix = fmt::format("{}{}", rule.prefix, shared.prefix);
  shared.prefix = prefix;
  add_mlp(layer.shared, shared, config_.experts.shared_intermediate_size);
  if (!rule.shared_gate.empty())
    add(layer.shared_gate, fmt::format("{}{}.weight", rule.prefix, rule.shared_gate), {1, d_});
}

std::string LayerTensors::of_all(std::string_view name) const {
  return fmt::format("{}{}{}", prefix_, family_.experts.prefix, name);
}

bool LayerTensors::all_in_one() const {
  const ExpertsRule& rule = family_.experts;
  if (stored_.find(of_all(part_of(0, rule.names.gate))) != nullptr) return false;
  return rule.transposed || stored_.find(of_all(rule.all_gate_up)) != nullptr ||
         rule.all_gate_up.ends_with(".weight");
}

std::string LayerTensors::part_of(int expert, std::string_view part, const char* kind) const {
  return fmt::format("{}{}.{}.{}", family_.experts.names.prefix, expert, part, kind);
}

void LayerTensors::want_expert(std::string_view name, Shape shape) {
  expert_tensors_.push_back({nullptr, of_all(name), std::move(shape)});
}

void LayerTensors::add(at::Tensor& target, std::string_view name, Shape shape) {
  tensors_.push_back({&target, prefix_ + std::string(name), std::move(shape)});
}

void LayerTensors::fuse(std::string_view name, std::int64_t columns, std::vector<Place> places) {
  interleave(name, columns, 1, std::move(places));
}

void LayerTensors::interleave(std::string_view name, std::int64_t columns, std::int64_t n,
                              std::vector<Place> places) {
  std::int64_t rows = 0;
  for (const Place& place : places) rows += n * place.rows;
  tensors_.push_back(
      {nullptr, prefix_ + std::string(name), columns == 0 ? Shape{rows} : Shape{rows, columns}});
  fused_.push_back({prefix_ + std::string(name), n, std::move(places)});
}

}  // namespace keyscope::capture
