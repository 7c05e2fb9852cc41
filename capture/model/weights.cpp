#include "capture/model/weights.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/errors.hpp"
#include "capture/model/strict_json.hpp"

namespace keyscope::capture {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";

// A tensor that the model needs: where it goes, what it is called, what shape it must have.
struct Wanted {
  at::Tensor* target;
  std::string name;
  Shape shape;
};

at::ScalarType scalar_type(const StoredTensor& tensor, const std::string& name) {
  if (tensor.dtype == "F32") return at::kFloat;
  if (tensor.dtype == "BF16") return at::kBFloat16;
  if (tensor.dtype == "F16") return at::kHalf;
  throw FileError(
      fmt::format("{}: tensor {} is {}, expected F32, BF16 or F16", tensor.file, name, tensor.dtype));
}

std::vector<Wanted> layer_tensors(LayerWeights& layer, const ModelConfig& config, int index) {
  const std::string at = fmt::format("model.layers.{}.", index);
  const std::int64_t d = config.hidden_size, f = config.intermediate_size;
  const std::int64_t wide = std::int64_t{config.n_heads} * config.head_dim;
  const std::int64_t narrow = std::int64_t{config.n_kv_heads} * config.head_dim;
  std::vector<Wanted> wanted{{&layer.attention_norm, at + "input_layernorm.weight", {d}},
                             {&layer.wq, at + "self_attn.q_proj.weight", {wide, d}},
                             {&layer.wk, at + "self_attn.k_proj.weight", {narrow, d}},
                             {&layer.wv, at + "self_attn.v_proj.weight", {narrow, d}},
                             {&layer.wo, at + "self_attn.o_proj.weight", {d, wide}},
                             {&layer.mlp_norm, at + "post_attention_layernorm.weight", {d}},
                             {&layer.gate, at + "mlp.gate_proj.weight", {f, d}},
                             {&layer.up, at + "mlp.up_proj.weight", {f, d}},
                             {&layer.down, at + "mlp.down_proj.weight", {d, f}}};
  if (config.qkv_bias) {
    wanted.push_back({&layer.bq, at + "self_attn.q_proj.bias", {wide}});
    wanted.push_back({&layer.bk, at + "self_attn.k_proj.bias", {narrow}});
    wanted.push_back({&layer.bv, at + "self_attn.v_proj.bias", {narrow}});
  }
  if (config.output_bias) wanted.push_back({&layer.bo, at + "self_attn.o_proj.bias", {d}});
  if (config.qk_norm) {
    wanted.push_back({&layer.query_norm, at + "self_attn.q_norm.weight", {config.head_dim}});
    wanted.push_back({&layer.key_norm, at + "self_attn.k_norm.weight", {config.head_dim}});
  }
  if (config.mlp_bias) {
    wanted.push_back({&layer.gate_bias, at + "mlp.gate_proj.bias", {f}});
    wanted.push_back({&layer.up_bias, at + "mlp.up_proj.bias", {f}});
    wanted.push_back({&layer.down_bias, at + "mlp.down_proj.bias", {d}});
  }
  return wanted;
}

std::vector<Wanted> model_tensors(Weights& weights, const ModelConfig& config, const Checkpoint& checkpoint) {
  const Shape table{config.vocab_size, config.hidden_size};
  std::vector<Wanted> wanted{{&weights.final_norm, "model.norm.weight", {config.hidden_size}}};
  if (config.tie_word_embeddings) {
    const bool only_head = checkpoint.find(kEmbedding) == nullptr && checkpoint.find(kHead) != nullptr;
    wanted.push_back({&weights.embedding, only_head ? kHead : kEmbedding, table});
  } else {
    wanted.push_back({&weights.embedding, kEmbedding, table});
    wanted.push_back({&weights.head, kHead, table});
  }
  for (int i = 0; i < config.n_layers; ++i) {
    auto layer = layer_tensors(weights.layers[static_cast<std::size_t>(i)], config, i);
    wanted.insert(wanted.end(), layer.begin(), layer.end());
  }
  return wanted;
}

// A tensor that nothing asks for means that configuration and weights are not of one model: more layers,
// biases that would be left out, scales of a quantized format. Rotary frequencies were once stored beside the
// weights.
void refuse_unknown(const Checkpoint& checkpoint, const std::vector<Wanted>& wanted, bool tied) {
  std::set<std::string_view> known;
  for (const Wanted& tensor : wanted) known.insert(tensor.name);
  if (tied) known.insert({kEmbedding, kHead});
  for (const auto& [name, stored] : checkpoint.tensors())
    if (!known.contains(name) && !name.ends_with("rotary_emb.inv_freq"))
      throw FileError(
          fmt::format("{}: tensor {} has no place in the model that config.json describes; are the two "
                      "of one model?",
                      stored->file, shown(name)));
}

// Where both of a tied pair are stored they are the same matrix.
void check_tied_pair(const Checkpoint& checkpoint) {
  const StoredTensor* embedding = checkpoint.find(kEmbedding);
  const StoredTensor* head = checkpoint.find(kHead);
  if (embedding == nullptr || head == nullptr) return;
  const bool same =
      embedding->dtype == head->dtype && embedding->shape == head->shape &&
      std::equal(embedding->data.begin(), embedding->data.end(), head->data.begin(), head->data.end());
  if (!same)
    throw FileError(
        fmt::format("{}: {} and {} differ, and tie_word_embeddings in config.json says that they are "
                    "one",
                    head->file, kHead, kEmbedding));
}

const StoredTensor& checked(const Checkpoint& checkpoint, const Wanted& wanted) {
  const StoredTensor* stored = checkpoint.find(wanted.name);
  if (stored == nullptr)
    throw FileError(fmt::format("{}: tensor {} is missing, expected [{}] as config.json implies",
                                checkpoint.source(), wanted.name, fmt::join(wanted.shape, ", ")));
  if (stored->shape != wanted.shape)
    throw FileError(fmt::format("{}: tensor {} is [{}], expected [{}] as config.json implies", stored->file,
                                wanted.name, fmt::join(stored->shape, ", "), fmt::join(wanted.shape, ", ")));
  scalar_type(*stored, wanted.name);
  return *stored;
}

// Uses the mapped bytes themselves where dtype and alignment permit; they are never written to.
at::Tensor bind(const StoredTensor& stored, const std::string& name, at::ScalarType dtype,
                std::int64_t& copied_bytes) {
  const at::ScalarType stored_type = scalar_type(stored, name);
  const auto address = reinterpret_cast<std::uintptr_t>(stored.data.data());
  void* data = const_cast<std::byte*>(stored.data.data());
  at::Tensor tensor;
  if (address % c10::elementSize(stored_type) == 0) {
    tensor = at::from_blob(data, stored.shape, at::TensorOptions().dtype(stored_type));
  } else {
    tensor = at::empty(stored.shape, at::TensorOptions().dtype(stored_type));
    std::memcpy(tensor.mutable_data_ptr(), data, stored.data.size());
    copied_bytes += static_cast<std::int64_t>(stored.data.size());
  }
  if (stored_type == dtype) return tensor;
  copied_bytes += stored.n_elements() * static_cast<std::int64_t>(c10::elementSize(dtype));
  return tensor.to(dtype);
}

}  // namespace

Weights bind_weights(const Checkpoint& checkpoint, const ModelConfig& config, at::ScalarType dtype) {
  Weights weights;
  weights.layers.resize(static_cast<std::size_t>(config.n_layers));
  const auto wanted = model_tensors(weights, config, checkpoint);
  for (const Wanted& tensor : wanted) checked(checkpoint, tensor);
  refuse_unknown(checkpoint, wanted, config.tie_word_embeddings);
  if (config.tie_word_embeddings) check_tied_pair(checkpoint);
  for (const Wanted& tensor : wanted)
    *tensor.target = bind(checked(checkpoint, tensor), tensor.name, dtype, weights.copied_bytes);
  if (config.tie_word_embeddings) weights.head = weights.embedding;
  return weights;
}

}  // namespace keyscope::capture
