#include "capture/model/weights.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/TensorIndexing.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "capture/model/family.hpp"

namespace keyscope::capture {
namespace {

// Without what stands before them.
constexpr std::string_view kEmbedding = "embed_tokens.weight";
constexpr std::string_view kHead = "lm_head.weight";
constexpr std::string_view kLayers = "layers.";

// How a checkpoint calls what the decoder needs: "model.layers.0.…" where it was saved with its head,
// "layers.0.…" without, something longer as a part of a larger model.
struct TensorNames {
  std::string decoder;  // what stands before all but the head
  std::string embedding, head;
};

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

// A tensor that the model needs: where it goes, what it is called, what shape it must have.
struct Wanted {
  at::Tensor* target;  // null where several places share it
  std::string name;
  Shape shape;
  bool wide = false;  // in float32, whatever the model's dtype
};

// Of a tensor that is stored as it is.
at::ScalarType scalar_type(const StoredWeight& weight) {
  if (weight.form() == "BF16") return at::kBFloat16;
  return weight.form() == "F16" ? at::kHalf : at::kFloat;
}

// A tensor stored by itself, or one of several that are stored as one matrix, by rows.
struct Place {
  at::Tensor* target;
  std::int64_t rows;
};

// Splits a stored matrix among its places when it is bound. Its rows come in groups, each with its share of
// every place; a target that has several places gets them one after another.
struct Fused {
  std::string name;
  std::int64_t n_groups;
  std::vector<Place> places;
};

// Entries [first, first + n) of a tensor, as they are computed with.
struct Reading {
  at::ScalarType dtype;
  at::Device device;

  at::Tensor operator()(const StoredWeight& weight, std::int64_t first, std::int64_t n) const;
  at::Tensor operator()(const StoredWeight& weight) const {
    return (*this)(weight, 0, weight.shape().front());
  }
};

// What a layer of this model has, and where it goes.
class LayerPlan {
 public:
  LayerPlan(LayerWeights& layer, const ModelConfig& config, const StoredWeights& stored,
            const std::string& decoder, int index)
      : config_(config),
        family_(*find_family(config.model_type)),
        stored_(stored),
        prefix_(fmt::format("{}{}{}.", decoder, kLayers, index)),
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
    if (config.has_experts(index))
      add_experts(layer);
    else
      add_mlp(layer.mlp, only_shared() ? family_.experts.shared : family_.mlp, config.intermediate_size);
  }

  const std::vector<Wanted>& tensors() const { return tensors_; }
  const std::vector<Fused>& fused() const { return fused_; }
  // Those of experts, which are not read with the others.
  const std::vector<Wanted>& expert_tensors() const { return expert_tensors_; }

  // The layer's experts, read from what is stored. It outlives the plan.
  ExpertWeights experts(const Reading& read) const;

 private:
  // Whether the family's experts are none here, but for the shared one.
  bool only_shared() const { return family_.experts.may_be_none && config_.experts.n == 0; }

  void add_attention(LayerWeights& layer) {
    const std::int64_t wide = std::int64_t{config_.n_heads} * config_.head_dim;
    const std::int64_t narrow = std::int64_t{config_.n_kv_heads} * config_.head_dim;
    if (config_.attention_gate) {
      // Rows of each head: its query's, then its gate's.
      interleave("self_attn.q_proj.weight", d_, config_.n_heads,
                 {{&layer.wq, config_.head_dim}, {&layer.wgate, config_.head_dim}});
      add(layer.wk, "self_attn.k_proj.weight", {narrow, d_});
      add(layer.wv, "self_attn.v_proj.weight", {narrow, d_});
    } else if (family_.fused_qkv) {
      fuse("self_attn.qkv_proj.weight", d_, {{&layer.wq, wide}, {&layer.wk, narrow}, {&layer.wv, narrow}});
    } else {
      add(layer.wq, "self_attn.q_proj.weight", {wide, d_});
      add(layer.wk, "self_attn.k_proj.weight", {narrow, d_});
      add(layer.wv, "self_attn.v_proj.weight", {narrow, d_});
    }
    add(layer.wo, "self_attn.o_proj.weight", {d_, wide});
    if (config_.qkv_bias) {
      add(layer.bq, "self_attn.q_proj.bias", {wide});
      add(layer.bk, "self_attn.k_proj.bias", {narrow});
      add(layer.bv, "self_attn.v_proj.bias", {narrow});
    }
    if (config_.output_bias) add(layer.bo, "self_attn.o_proj.bias", {d_});
    if (family_.head_norm != HeadNorm::kNone) {
      const bool each = family_.head_norm == HeadNorm::kEachHead;
      add(layer.query_norm, "self_attn.q_norm.weight", {each ? config_.head_dim : wide});
      add(layer.key_norm, "self_attn.k_norm.weight", {each ? config_.head_dim : narrow});
    }
    if (config_.attention_sinks) add(layer.sinks, "self_attn.sinks", {config_.n_heads});
  }

  void add_latent(LayerWeights& layer) {
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

  void add_recurrent(LayerWeights& layer) {
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

  void add_norm(at::Tensor& target, std::string_view name) {
    if (!name.empty()) add(target, fmt::format("{}.weight", name), {d_});
  }

  void add_mlp(MlpWeights& mlp, const MlpNames& names, std::int64_t f) {
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

  void add_experts(LayerWeights& layer) {
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

  std::string of_all(std::string_view name) const {
    return fmt::format("{}{}{}", prefix_, family_.experts.prefix, name);
  }

  // Whether all experts are stored in one tensor, as newer checkpoints have them and some families always do.
  bool all_in_one() const {
    return family_.experts.transposed || stored_.find(of_all(family_.experts.all_gate_up)) != nullptr ||
           family_.experts.all_gate_up.ends_with(".weight");
  }

  std::string part_of(int expert, std::string_view part) const {
    return fmt::format("{}{}.{}.weight", family_.experts.names.prefix, expert, part);
  }

  void want_expert(std::string_view name, Shape shape) {
    expert_tensors_.push_back({nullptr, of_all(name), std::move(shape)});
  }

  void add(at::Tensor& target, std::string_view name, Shape shape) {
    tensors_.push_back({&target, prefix_ + std::string(name), std::move(shape)});
  }

  void fuse(std::string_view name, std::int64_t columns, std::vector<Place> places) {
    interleave(name, columns, 1, std::move(places));
  }

  // The rows of `n` groups, each of which has its share of every place.
  void interleave(std::string_view name, std::int64_t columns, std::int64_t n, std::vector<Place> places) {
    std::int64_t rows = 0;
    for (const Place& place : places) rows += n * place.rows;
    tensors_.push_back({nullptr, prefix_ + std::string(name), {rows, columns}});
    fused_.push_back({prefix_ + std::string(name), n, std::move(places)});
  }

  const ModelConfig& config_;
  const Family& family_;
  const StoredWeights& stored_;
  std::string prefix_;
  std::int64_t d_;
  std::vector<Wanted> tensors_, expert_tensors_;
  std::vector<Fused> fused_;
};

// A model without a head was saved without one: it gives hidden states and no next token.
std::vector<Wanted> outer_tensors(at::Tensor& embedding, at::Tensor& head, at::Tensor& final_norm,
                                  const ModelConfig& config, const TensorNames& names,
                                  const StoredWeights& stored) {
  const Shape table{config.vocab_size, config.hidden_size};
  std::vector<Wanted> wanted{{&final_norm, names.decoder + "norm.weight", {config.hidden_size}}};
  if (config.tie_word_embeddings) {
    const bool only_head = stored.find(names.embedding) == nullptr && stored.find(names.head) != nullptr;
    wanted.push_back({&embedding, only_head ? names.head : names.embedding, table});
  } else {
    wanted.push_back({&embedding, names.embedding, table});
    // A name without "model." before it was given by a model without a head.
    const bool may_lack_head = config.headless || names.decoder.empty();
    if (!may_lack_head || stored.find(names.head) != nullptr) wanted.push_back({&head, names.head, table});
  }
  return wanted;
}

// Everything that the decoder of this configuration is made of.
std::vector<Wanted> decoder_tensors(const ModelConfig& config, const StoredWeights& stored,
                                    const TensorNames& names, std::vector<Wanted> outer) {
  LayerWeights unused;
  for (int i = 0; i < config.n_layers; ++i) {
    const LayerPlan plan(unused, config, stored, names.decoder, i);
    outer.insert(outer.end(), plan.tensors().begin(), plan.tensors().end());
    outer.insert(outer.end(), plan.expert_tensors().begin(), plan.expert_tensors().end());
  }
  return outer;
}

// Within a layer, what nothing is computed with: rotary frequencies, which were once stored beside the
// weights, adapters that were left behind, scales of a quantized cache, masks.
bool is_leftover(std::string_view name) {
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{".rotary_emb.", ".lora_", ".adapter", ".k_scale", ".v_scale",
                                              ".attention.bias", ".attention.masked_bias"},
      [&](std::string_view part) { return name.find(part) != name.npos; });
}

// Some tools that pack weights write a bias of zeros where a module has none.
bool is_zero_bias(std::string_view name, const StoredWeight& weight) {
  if (!name.ends_with(".bias") || !weight.is_plain() || weight.shape().size() != 1) return false;
  std::vector<float> values(static_cast<std::size_t>(weight.n_elements()));
  weight.unpack(0, weight.shape().front(), values.data());
  return std::ranges::all_of(values, [](float value) { return value == 0; });
}

// A tensor of the decoder that nothing asks for means that configuration and weights are not of one model:
// more layers, biases that would be left out, scales of a quantized format.
//   throws FileError naming it
//   returns the tensors that have no part in the decoder: another head, adapters
std::vector<std::string> unused_tensors(const StoredWeights& stored, const std::vector<Wanted>& wanted,
                                        const ModelConfig& config, const TensorNames& names) {
  std::set<std::string_view> known, modules;
  for (const Wanted& tensor : wanted) {
    known.insert(tensor.name);
    modules.insert(std::string_view(tensor.name).substr(0, tensor.name.rfind('.')));
  }
  if (config.tie_word_embeddings) known.insert({names.embedding, names.head});
  std::vector<std::string> unused;
  std::set<std::string> further;  // what stands before the tensors of layers behind the last
  for (int i = 0; i < config.n_further_layers; ++i)
    further.insert(fmt::format("{}{}{}.", names.decoder, kLayers, config.n_layers + i));
  const std::size_t after_layers = names.decoder.size() + kLayers.size();
  for (const auto& [name, weight] : stored.tensors()) {
    if (known.contains(name)) continue;
    const bool of_layers = name.starts_with(names.decoder + std::string(kLayers)) &&
                           !further.contains(name.substr(0, name.find('.', after_layers) + 1));
    const bool of_known = modules.contains(std::string_view(name).substr(0, name.rfind('.')));
    const bool packed = config.quantisation.method != QuantMethod::kNone;
    if ((of_layers || of_known) && !is_leftover(name) && !(packed && is_zero_bias(name, *weight)))
      throw FileError(
          fmt::format("{}: tensor {} has no place in the model that config.json describes; are the two "
                      "of one model?",
                      weight->file(), shown(name)));
    unused.push_back(name);
  }
  return unused;
}

// Where both of a tied pair are stored they are the same matrix.
void check_tied_pair(const StoredWeights& stored, const TensorNames& names) {
  const StoredWeight* embedding = stored.find(names.embedding);
  const StoredWeight* head = stored.find(names.head);
  if (embedding == nullptr || head == nullptr) return;
  const bool alike = embedding->form() == head->form() && embedding->shape() == head->shape();
  const bool same =
      alike && std::ranges::equal(embedding->bytes(0, embedding->shape().front()),
                                  head->bytes(0, head->shape().front()),
                                  [](const auto& a, const auto& b) { return std::ranges::equal(a, b); });
  if (!same)
    throw FileError(
        fmt::format("{}: {} and {} differ, and tie_word_embeddings in config.json says that they are "
                    "one",
                    head->file(), names.head, names.embedding));
}

const StoredWeight& checked(const StoredWeights& stored, const Wanted& wanted) {
  const StoredWeight* weight = stored.find(wanted.name);
  if (weight == nullptr) {
    const std::string why = stored.why_missing(wanted.name);
    throw FileError(fmt::format("{}: tensor {} is missing, expected [{}] as config.json implies{}{}",
                                stored.source(), wanted.name, fmt::join(wanted.shape, ", "),
                                why.empty() ? "" : "; ", why));
  }
  if (weight->shape() != wanted.shape)
    throw FileError(fmt::format("{}: tensor {} is [{}], expected [{}] as config.json implies", weight->file(),
                                wanted.name, fmt::join(weight->shape(), ", "),
                                fmt::join(wanted.shape, ", ")));
  weight->check_form(wanted.name);
  return *weight;
}

// Entries from `first` on, by way of float32 in pieces, which take little memory beside the result.
void unpack_into(at::Tensor& target, const StoredWeight& weight, std::int64_t first) {
  constexpr std::int64_t kPieceElements = std::int64_t{1} << 22, kRowsTogether = 32;
  const std::int64_t n = target.size(0), entry = std::max<std::int64_t>(1, target.numel() / n);
  const std::int64_t n_fit = std::max<std::int64_t>(1, kPieceElements / entry);
  const std::int64_t n_piece =
      std::min(n, n_fit < kRowsTogether ? n_fit : n_fit / kRowsTogether * kRowsTogether);
  const bool in_place = target.is_cpu() && target.scalar_type() == at::kFloat;
  at::Tensor piece = in_place ? target : at::empty({n_piece * entry}, at::TensorOptions().dtype(at::kFloat));
  float* data = piece.mutable_data_ptr<float>();
  for (std::int64_t row = 0; row < n; row += n_piece) {
    const std::int64_t n_here = std::min(n_piece, n - row);
    float* out = in_place ? data + row * entry : data;
    at::parallel_for(0, n_here, kRowsTogether, [&](std::int64_t begin, std::int64_t end) {
      weight.unpack(first + row + begin, end - begin, out + begin * entry);
    });
    if (!in_place) {
      at::Tensor part = target.narrow(0, row, n_here);
      part.copy_(piece.narrow(0, 0, n_here * entry).view(part.sizes()).to(target.device()));
    }
  }
}

// Of a file mapped for reading only, pages that were given back are read again when they are touched.
void advise_pages(const StoredWeight& weight, std::int64_t first, std::int64_t n, int advice) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  for (const std::span<const std::byte> data : weight.bytes(first, n)) {
    // A page shared with a neighbouring tensor may go as well: it comes back when it is needed.
    const std::uintptr_t into_page = reinterpret_cast<std::uintptr_t>(data.data()) % page;
    madvise(const_cast<std::byte*>(data.data() - into_page), data.size() + into_page, advice);
  }
}

void advise_pages(const StoredWeight& weight, int advice) {
  advise_pages(weight, 0, weight.shape().front(), advice);
}

// The mapped bytes themselves where dtype and alignment permit; they are never written to.
at::Tensor plain_entries(const StoredWeight& weight, std::int64_t first, const Shape& shape) {
  const at::ScalarType type = scalar_type(weight);
  const std::span<const std::byte> bytes = weight.bytes(first, shape.front()).front();
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  void* data = const_cast<std::byte*>(bytes.data());
  if (address % c10::elementSize(type) == 0)
    return at::from_blob(data, shape, at::TensorOptions().dtype(type));
  at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(type));
  std::memcpy(tensor.mutable_data_ptr(), data, bytes.size());
  return tensor;
}

// From then on, nobody needs the file's pages of what was unpacked, or copied to another device.
at::Tensor Reading::operator()(const StoredWeight& weight, std::int64_t first, std::int64_t n) const {
  Shape shape = weight.shape();
  shape.front() = n;
  at::Tensor tensor;
  if (weight.is_plain()) {
    // The device first, which converts faster than the CPU does.
    tensor = plain_entries(weight, first, shape).to(device).to(dtype);
  } else {
    tensor = at::empty(shape, at::TensorOptions().dtype(dtype).device(device));
    unpack_into(tensor, weight, first);
  }
  if (!device.is_cpu() || !weight.is_plain()) advise_pages(weight, first, n, MADV_DONTNEED);
  return tensor;
}

// An expert out of the tensors that hold all: (1, 2F, D) and (1, D, F), or transposed with gate and up
// interleaved.
MlpWeights split_expert(const at::Tensor& gate_up, const at::Tensor& down, bool transposed) {
  const at::Tensor both = transposed ? gate_up[0].t() : gate_up[0];
  if (!transposed) return {both.chunk(2)[0], both.chunk(2)[1], down[0], {}, {}, {}};
  return {both.slice(0, 0, std::nullopt, 2).contiguous(),
          both.slice(0, 1, std::nullopt, 2).contiguous(),
          down[0].t().contiguous(),
          {},
          {},
          {}};
}

ExpertWeights LayerPlan::experts(const Reading& read) const {
  const ExpertsRule& rule = family_.experts;
  std::vector<const StoredWeight*> parts;
  for (const Wanted& wanted : expert_tensors_) parts.push_back(stored_.find(wanted.name));
  const int n = parts.empty() ? 0 : config_.experts.n;
  if (!all_in_one())
    return {n,
            [read, parts](int expert) {
              const auto* of_expert = parts.data() + std::ptrdiff_t{3} * expert;
              return MlpWeights{read(*of_expert[0]), read(*of_expert[1]), read(*of_expert[2]), {}, {}, {}};
            },
            [parts](int expert) {
              for (int part = 0; part < 3; ++part) advise_pages(*parts[3 * expert + part], MADV_WILLNEED);
            }};
  return {n,
          [read, parts, transposed = rule.transposed](int expert) {
            MlpWeights weights =
                split_expert(read(*parts[0], expert, 1), read(*parts[1], expert, 1), transposed);
            if (parts.size() == 2) return weights;
            const at::Tensor bias = read(*parts[2], expert, 1)[0];
            weights.gate_bias = bias.slice(0, 0, std::nullopt, 2).contiguous();
            weights.up_bias = bias.slice(0, 1, std::nullopt, 2).contiguous();
            weights.down_bias = read(*parts[3], expert, 1)[0];
            return weights;
          },
          [parts](int expert) {
            for (const StoredWeight* part : parts) advise_pages(*part, expert, 1, MADV_WILLNEED);
          }};
}

}  // namespace

ExpertWeights::ExpertWeights(int n, Read read, Prefetch prefetch)
    : read_one_(std::move(read)), prefetch_(std::move(prefetch)), read_(n) {}

const MlpWeights& ExpertWeights::at(int expert) const {
  auto& read = read_[expert];
  if (!read) read = read_one_(expert);
  return *read;
}

void ExpertWeights::prefetch(int expert) const {
  if (prefetch_ && !read_[expert]) prefetch_(expert);
}

void ExpertWeights::read_all() {
  for (int expert = 0; expert < n(); ++expert) at(expert);
  read_one_ = {};
  prefetch_ = {};
}

WeightStore::WeightStore(const StoredWeights& stored, const ModelConfig& config, at::ScalarType dtype,
                         Residency residency, at::Device device)
    : stored_(&stored), config_(config), dtype_(dtype), residency_(residency), device_(device) {
  const TensorNames names = tensor_names(stored);
  decoder_ = names.decoder;
  const auto outer = outer_tensors(embedding_, head_, final_norm_, config, names, stored);
  const std::vector<Wanted> wanted = decoder_tensors(config, stored, names, outer);
  for (const Wanted& tensor : wanted) checked(stored, tensor);
  unused_ = unused_tensors(stored, wanted, config, names);
  if (config.tie_word_embeddings) check_tied_pair(stored, names);
  for (const Wanted& tensor : outer) *tensor.target = bind_tensor(tensor.name, dtype);
  if (config.tie_word_embeddings) head_ = embedding_;
  if (residency == Residency::kStreamed) {
    for (int i = 0; i < config.n_layers; ++i) release(i);  // what was read of it for checks
    return;
  }
  for (int i = 0; i < config.n_layers; ++i) layers_.push_back(bind_layer(i));
}

std::shared_ptr<const LayerWeights> WeightStore::layer(int index) const {
  if (residency_ == Residency::kWhole) return layers_[index];
  return bind_layer(index);
}

std::shared_ptr<const LayerWeights> WeightStore::bind_layer(int index) const {
  auto layer = std::make_shared<LayerWeights>();
  const LayerPlan plan(*layer, config_, *stored_, decoder_, index);
  for (const Wanted& tensor : plan.tensors())
    if (tensor.target != nullptr)
      *tensor.target = bind_tensor(tensor.name, tensor.wide ? at::kFloat : dtype_);
  for (const Fused& fused : plan.fused()) {
    const at::Tensor whole = bind_tensor(fused.name, dtype_);
    const at::Tensor groups = whole.unflatten(0, {fused.n_groups, -1});
    std::int64_t row = 0;
    for (const Place& place : fused.places) {
      const at::Tensor rows = groups.narrow(1, row, place.rows).flatten(0, 1);
      *place.target = place.target->defined() ? at::cat({*place.target, rows}) : rows;
      row += place.rows;
    }
  }
  if (layer->sinks.defined()) layer->sinks = layer->sinks.to(at::kCPU).to(at::kFloat);
  layer->experts = plan.experts({dtype_, device_});
  if (residency_ == Residency::kWhole) layer->experts.read_all();
  return layer;
}

at::Tensor WeightStore::bind_tensor(const std::string& name, at::ScalarType dtype) const {
  return Reading{dtype, device_}(*stored_->find(name));
}

void WeightStore::prefetch(int index) const { advise(index, MADV_WILLNEED); }

void WeightStore::release(int index) const { advise(index, MADV_DONTNEED); }

void WeightStore::advise(int index, int advice) const {
  if (residency_ == Residency::kWhole || index < 0 || index >= config_.n_layers) return;
  LayerWeights unused;
  const LayerPlan plan(unused, config_, *stored_, decoder_, index);
  for (const Wanted& tensor : plan.tensors()) advise_pages(*stored_->find(tensor.name), advice);
  if (advice == MADV_WILLNEED) return;  // which experts are asked for is not known yet
  for (const Wanted& tensor : plan.expert_tensors()) advise_pages(*stored_->find(tensor.name), advice);
}

WeightBytes weight_bytes(const StoredWeights& stored, const ModelConfig& config, at::ScalarType dtype) {
  const TensorNames names = tensor_names(stored);
  at::Tensor embedding, head, norm;
  const std::string layers = names.decoder + std::string(kLayers);
  WeightBytes bytes;
  std::map<std::string, std::int64_t, std::less<>> by_layer;
  for (const Wanted& wanted :
       decoder_tensors(config, stored, names, outer_tensors(embedding, head, norm, config, names, stored))) {
    const StoredWeight* weight = stored.find(wanted.name);
    if (weight == nullptr) continue;  // which is said when the weights are read
    const std::int64_t n = weight->n_elements() * static_cast<std::int64_t>(c10::elementSize(dtype));
    bytes.all += n;
    if (!wanted.name.starts_with(layers)) {
      bytes.outside_layers += n;
      continue;
    }
    std::int64_t& layer = by_layer[wanted.name.substr(0, wanted.name.find('.', layers.size()))];
    layer += n;
    bytes.largest_layer = std::max(bytes.largest_layer, layer);
  }
  return bytes;
}

}  // namespace keyscope::capture
