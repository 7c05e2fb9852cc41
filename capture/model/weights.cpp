#include "capture/model/weights.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/errors.hpp"
#include "base/json.hpp"

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
  for (const std::string_view last : {kEmbedding, std::string_view("layers.0.input_layernorm.weight")}) {
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

// Splits a stored matrix among its places when it is bound.
struct Fused {
  std::string name;
  std::vector<Place> places;
};

// What a layer of this model has, and where it goes.
class LayerPlan {
 public:
  LayerPlan(LayerWeights& layer, const ModelConfig& config, const std::string& decoder, int index)
      : config_(config), prefix_(fmt::format("{}{}{}.", decoder, kLayers, index)) {
    const std::int64_t d = config.hidden_size, f = config.intermediate_size;
    const std::int64_t wide = std::int64_t{config.n_heads} * config.head_dim;
    const std::int64_t narrow = std::int64_t{config.n_kv_heads} * config.head_dim;
    add(layer.attention_norm, "input_layernorm.weight", {d});
    add_norms(layer);
    if (config.fused_projections) {
      fuse("self_attn.qkv_proj.weight", d, {{&layer.wq, wide}, {&layer.wk, narrow}, {&layer.wv, narrow}});
      fuse("mlp.gate_up_proj.weight", d, {{&layer.gate, f}, {&layer.up, f}});
    } else {
      add(layer.wq, "self_attn.q_proj.weight", {wide, d});
      add(layer.wk, "self_attn.k_proj.weight", {narrow, d});
      add(layer.wv, "self_attn.v_proj.weight", {narrow, d});
      add(layer.gate, "mlp.gate_proj.weight", {f, d});
      add(layer.up, "mlp.up_proj.weight", {f, d});
    }
    add(layer.wo, "self_attn.o_proj.weight", {d, wide});
    add(layer.down, "mlp.down_proj.weight", {d, f});
    if (config.qkv_bias) {
      add(layer.bq, "self_attn.q_proj.bias", {wide});
      add(layer.bk, "self_attn.k_proj.bias", {narrow});
      add(layer.bv, "self_attn.v_proj.bias", {narrow});
    }
    if (config.output_bias) add(layer.bo, "self_attn.o_proj.bias", {d});
    if (config.mlp_bias) {
      add(layer.gate_bias, "mlp.gate_proj.bias", {f});
      add(layer.up_bias, "mlp.up_proj.bias", {f});
      add(layer.down_bias, "mlp.down_proj.bias", {d});
    }
  }

  const std::vector<Wanted>& tensors() const { return tensors_; }
  const std::vector<Fused>& fused() const { return fused_; }

 private:
  // Where the outputs are normalised as well, the MLP's own norm has another name.
  void add_norms(LayerWeights& layer) {
    const std::int64_t d = config_.hidden_size;
    if (config_.post_norms) {
      add(layer.attention_post_norm, "post_attention_layernorm.weight", {d});
      add(layer.mlp_norm, "pre_feedforward_layernorm.weight", {d});
      add(layer.mlp_post_norm, "post_feedforward_layernorm.weight", {d});
    } else {
      add(layer.mlp_norm, "post_attention_layernorm.weight", {d});
    }
    if (config_.qk_norm) {
      add(layer.query_norm, "self_attn.q_norm.weight", {config_.head_dim});
      add(layer.key_norm, "self_attn.k_norm.weight", {config_.head_dim});
    }
  }

  void add(at::Tensor& target, std::string_view name, Shape shape) {
    tensors_.push_back({&target, prefix_ + std::string(name), std::move(shape)});
  }

  void fuse(std::string_view name, std::int64_t columns, std::vector<Place> places) {
    std::int64_t rows = 0;
    for (const Place& place : places) rows += place.rows;
    tensors_.push_back({nullptr, prefix_ + std::string(name), {rows, columns}});
    fused_.push_back({prefix_ + std::string(name), std::move(places)});
  }

  const ModelConfig& config_;
  std::string prefix_;
  std::vector<Wanted> tensors_;
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
std::vector<Wanted> decoder_tensors(const ModelConfig& config, const TensorNames& names,
                                    std::vector<Wanted> outer) {
  LayerWeights unused;
  for (int i = 0; i < config.n_layers; ++i) {
    const LayerPlan plan(unused, config, names.decoder, i);
    outer.insert(outer.end(), plan.tensors().begin(), plan.tensors().end());
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
  if (!name.ends_with(".bias") || !weight.is_plain() || weight.n_elements() == 0) return false;
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
  for (const auto& [name, weight] : stored.tensors()) {
    if (known.contains(name)) continue;
    const bool of_layers = name.starts_with(names.decoder + std::string(kLayers));
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

// Of entries [first, first + n) the mapped bytes themselves where they are plain and their alignment permits;
// they are never written to.
at::Tensor read_weight(const StoredWeight& weight, std::int64_t first, std::int64_t n, at::ScalarType dtype,
                       at::Device device) {
  Shape shape = weight.shape();
  shape.front() = n;
  if (!weight.is_plain()) {
    at::Tensor unpacked = at::empty(shape, at::TensorOptions().dtype(dtype).device(device));
    unpack_into(unpacked, weight, first);
    return unpacked;
  }
  const at::ScalarType type = scalar_type(weight);
  const std::span<const std::byte> bytes = weight.bytes(first, n).front();
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  void* data = const_cast<std::byte*>(bytes.data());
  at::Tensor tensor;
  if (address % c10::elementSize(type) == 0) {
    tensor = at::from_blob(data, shape, at::TensorOptions().dtype(type));
  } else {
    tensor = at::empty(shape, at::TensorOptions().dtype(type));
    std::memcpy(tensor.mutable_data_ptr(), data, bytes.size());
  }
  // The device first, which converts faster than the CPU does.
  return tensor.to(device).to(dtype);
}

// Of a file mapped for reading only, pages that were given back are read again when they are touched.
void advise_pages(const StoredWeight& weight, int advice) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  for (const std::span<const std::byte> data : weight.bytes(0, weight.shape().front())) {
    // A page shared with a neighbouring tensor may go as well: it comes back when it is needed.
    const std::uintptr_t into_page = reinterpret_cast<std::uintptr_t>(data.data()) % page;
    madvise(const_cast<std::byte*>(data.data() - into_page), data.size() + into_page, advice);
  }
}

}  // namespace

WeightStore::WeightStore(const StoredWeights& stored, const ModelConfig& config, at::ScalarType dtype,
                         Residency residency, at::Device device)
    : stored_(&stored), config_(config), dtype_(dtype), residency_(residency), device_(device) {
  const TensorNames names = tensor_names(stored);
  decoder_ = names.decoder;
  const auto outer = outer_tensors(embedding_, head_, final_norm_, config, names, stored);
  const std::vector<Wanted> wanted = decoder_tensors(config, names, outer);
  for (const Wanted& tensor : wanted) checked(stored, tensor);
  unused_ = unused_tensors(stored, wanted, config, names);
  if (config.tie_word_embeddings) check_tied_pair(stored, names);
  for (const Wanted& tensor : outer) *tensor.target = bind_tensor(tensor.name);
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
  const LayerPlan plan(*layer, config_, decoder_, index);
  for (const Wanted& tensor : plan.tensors())
    if (tensor.target != nullptr) *tensor.target = bind_tensor(tensor.name);
  for (const Fused& fused : plan.fused()) {
    const at::Tensor whole = bind_tensor(fused.name);
    std::int64_t row = 0;
    for (const Place& place : fused.places) {
      *place.target = whole.narrow(0, row, place.rows);
      row += place.rows;
    }
  }
  return layer;
}

// From then on, nobody needs the file's pages of what was copied to another device.
at::Tensor WeightStore::bind_tensor(const std::string& name) const {
  const StoredWeight& weight = *stored_->find(name);
  at::Tensor tensor = read_weight(weight, 0, weight.shape().front(), dtype_, device_);
  if (!device_.is_cpu() || !weight.is_plain()) advise_pages(weight, MADV_DONTNEED);
  return tensor;
}

void WeightStore::prefetch(int index) const { advise(index, MADV_WILLNEED); }

void WeightStore::release(int index) const { advise(index, MADV_DONTNEED); }

void WeightStore::advise(int index, int advice) const {
  if (residency_ == Residency::kWhole || index < 0 || index >= config_.n_layers) return;
  LayerWeights unused;
  const LayerPlan plan(unused, config_, decoder_, index);
  for (const Wanted& tensor : plan.tensors()) advise_pages(*stored_->find(tensor.name), advice);
}

WeightBytes weight_bytes(const StoredWeights& stored, const ModelConfig& config, at::ScalarType dtype) {
  const TensorNames names = tensor_names(stored);
  at::Tensor embedding, head, norm;
  const std::string layers = names.decoder + std::string(kLayers);
  WeightBytes bytes;
  std::map<std::string, std::int64_t, std::less<>> by_layer;
  for (const Wanted& wanted :
       decoder_tensors(config, names, outer_tensors(embedding, head, norm, config, names, stored))) {
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
