#include "capture/model/weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "capture/model/layer_tensors.hpp"

namespace keyscope::capture {
namespace {

// Of a tensor that is stored as it is.
at::ScalarType scalar_type(const StoredWeight& weight) {
  if (weight.form() == "BF16") return at::kBFloat16;
  return weight.form() == "F16" ? at::kHalf : at::kFloat;
}

// Entries [first, first + n) of a tensor, as they are computed with.
struct Reading {
  at::ScalarType dtype;
  at::Device device;

  at::Tensor operator()(const StoredWeight& weight, std::int64_t first, std::int64_t n) const;
  at::Tensor operator()(const StoredWeight& weight) const {
    return (*this)(weight, 0, weight.shape().front());
  }
};

// A model without a head was saved without one: it gives hidden states and no next token.
std::vector<Wanted> outer_tensors(at::Tensor& embedding, at::Tensor& head, at::Tensor& final_norm,
                                  LayerInputWeights& layer_input, const ModelConfig& config,
                                  const TensorNames& names, const StoredWeights& stored) {
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
  if (const std::int64_t size = config.layer_input.size; size > 0) {
    const auto add = [&](at::Tensor& target, const char* name, Shape shape) {
      wanted.push_back({&target, names.decoder + name, std::move(shape)});
    };
    add(layer_input.projection, "per_layer_model_projection.weight",
        {config.n_layers * size, config.hidden_size});
    add(layer_input.norm, "per_layer_projection_norm.weight", {size});
    add(layer_input.table, "embed_tokens_per_layer.weight",
        {config.layer_input.vocab_size, config.n_layers * size});
    wanted.back().as_stored = true;
  }
  return wanted;
}

//   throws FileError where it is missing, or has another shape or form
void check_tensor(const StoredWeights& stored, const Wanted& wanted) {
  const StoredWeight* weight = stored.find(wanted.name);
  if (weight == nullptr) {
    const std::string why = stored.why_missing(wanted.name);
    throw FileError(fmt::format("{}: tensor {} is missing, expected [{}] as config.json implies{}{}",
                                stored.source(), wanted.name, shown_list(wanted.shape),
                                why.empty() ? "" : "; ", why));
  }
  if (weight->shape() != wanted.shape)
    throw FileError(fmt::format("{}: tensor {} is [{}], expected [{}] as config.json implies", weight->file(),
                                wanted.name, shown_list(weight->shape()), shown_list(wanted.shape)));
  weight->check_form(wanted.name);
}

// Everything that the decoder of this configuration is made of. A configuration may claim any number of
// layers and experts: a layer's are checked before those of the next are listed.
std::vector<Wanted> decoder_tensors(const ModelConfig& config, const StoredWeights& stored,
                                    const TensorNames& names, std::vector<Wanted> outer) {
  const auto check_all = [&](const std::vector<Wanted>& tensors) {
    for (const Wanted& tensor : tensors) check_tensor(stored, tensor);
  };
  check_all(outer);
  LayerWeights unused;
  for (int i = 0; i < config.n_layers; ++i) {
    const LayerTensors tensors_of_layer(unused, config, stored, names.decoder, i);
    for (const auto* tensors : {&tensors_of_layer.tensors(), &tensors_of_layer.expert_tensors()}) {
      check_all(*tensors);
      outer.insert(outer.end(), tensors->begin(), tensors->end());
    }
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

// See LayerTensors::unread.
std::set<std::string> unread_modules(const StoredWeights& stored, const ModelConfig& config,
                                     const TensorNames& names) {
  std::set<std::string> modules;
  LayerWeights unused;
  for (int layer = 0; layer < config.n_layers; ++layer) {
    const LayerTensors tensors_of_layer(unused, config, stored, names.decoder, layer);
    modules.insert(tensors_of_layer.unread().begin(), tensors_of_layer.unread().end());
  }
  return modules;
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
  const std::set<std::string> unread = unread_modules(stored, config, names);
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
    if (unread.contains(name.substr(0, name.rfind('.')))) {
      unused.push_back(name);
      continue;
    }
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

// The dtype that a tensor is bound in.
at::ScalarType bound_dtype(const Wanted& wanted, const StoredWeights& stored, at::ScalarType dtype) {
  if (wanted.wide) return at::kFloat;
  const StoredWeight* weight = wanted.as_stored ? stored.find(wanted.name) : nullptr;
  return weight != nullptr && weight->is_plain() ? scalar_type(*weight) : dtype;
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

// The layer's experts, read from what is stored. They outlive their names.
ExpertWeights experts_of(const LayerTensors& tensors_of_layer, const StoredWeights& stored, int n_experts,
                         const Reading& read) {
  const ExpertsRule& rule = tensors_of_layer.experts_rule();
  std::vector<const StoredWeight*> parts;
  for (const Wanted& wanted : tensors_of_layer.expert_tensors()) parts.push_back(stored.find(wanted.name));
  const int n = parts.empty() ? 0 : n_experts;
  if (!tensors_of_layer.all_in_one()) {
    const std::ptrdiff_t n_parts = rule.biases ? 6 : 3;
    return {n,
            [read, parts, n_parts](int expert) {
              const auto* of_expert = parts.data() + n_parts * expert;
              MlpWeights weights{read(*of_expert[0]), read(*of_expert[1]), read(*of_expert[2]), {}, {}, {}};
              if (n_parts == 3) return weights;
              weights.gate_bias = read(*of_expert[3]);
              weights.up_bias = read(*of_expert[4]);
              weights.down_bias = read(*of_expert[5]);
              return weights;
            },
            [parts, n_parts](int expert) {
              for (std::ptrdiff_t part = 0; part < n_parts; ++part)
                advise_pages(*parts[n_parts * expert + part], MADV_WILLNEED);
            }};
  }
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
                         Residency residency, Placement placement, std::optional<bool> read_ahead)
    : stored_(&stored),
      config_(config),
      dtype_(dtype),
      residency_(residency),
      placement_(std::move(placement)) {
  const TensorNames names = tensor_names(stored);
  decoder_ = names.decoder;
  const auto outer = outer_tensors(embedding_, head_, final_norm_, layer_input_, config, names, stored);
  const std::vector<Wanted> wanted = decoder_tensors(config, stored, names, outer);
  unused_ = unused_tensors(stored, wanted, config, names);
  if (config.tie_word_embeddings) check_tied_pair(stored, names);
  for (const Wanted& tensor : outer) {
    const bool after_layers = tensor.target == &final_norm_ || tensor.target == &head_;
    *tensor.target = bind_tensor(tensor.name, bound_dtype(tensor, stored, dtype),
                                 after_layers ? placement_.last() : placement_.first());
  }
  if (config.tie_word_embeddings) head_ = embedding_.to(placement_.last());
  if (residency == Residency::kStreamed) {
    if (read_ahead.value_or(!placement_.first().is_cpu())) {
      read_ahead_ = std::make_unique<ReadAhead>();
      for (const at::Device device : placement_.devices())
        read_ahead_->streams.emplace_back(device, SideStream(device));
    }
    for (int i = 0; i < config.n_layers; ++i) release(i);  // what was read of it for checks
    return;
  }
  for (int i = 0; i < config.n_layers; ++i) layers_.push_back(bind_layer(i));
}

std::shared_ptr<const LayerWeights> WeightStore::layer(int index) const {
  if (residency_ == Residency::kWhole) return layers_[index];
  if (read_ahead_ == nullptr) return bind_layer(index);
  const std::scoped_lock lock(read_ahead_->mutex);
  auto layer = coming_layer(index);
  if (layer == nullptr) layer = bind_layer(index);
  read_ahead_->given = layer;
  return layer;
}

std::shared_ptr<const LayerWeights> WeightStore::coming_layer(int index) const {
  if (read_ahead_->index != index) return nullptr;
  read_ahead_->index = -1;
  ComingLayer layer = read_ahead_->coming.get();
  layer.arrival.hold_back(placement_.layer(index));
  return layer.weights;
}

// The device begins when it has done all that was asked of it so far, the last layer that has been let go
// included, whose memory may be used again.
void WeightStore::begin_reading(int index) const {
  const std::scoped_lock lock(read_ahead_->mutex);
  if (read_ahead_->index == index) return;
  const at::Device device = placement_.layer(index);
  const auto of_device =
      std::ranges::find(read_ahead_->streams, device, [](const auto& each) { return each.first; });
  read_ahead_->coming = std::async(
      std::launch::async, [this, index, stream = &of_device->second, done = DeviceMoment::of(device)] {
        const c10::InferenceMode inference;
        ComingLayer layer;
        layer.arrival = stream->run(done, [&] { layer.weights = bind_layer(index); });
        return layer;
      });
  read_ahead_->index = index;
}

std::shared_ptr<const LayerWeights> WeightStore::bind_layer(int index) const {
  auto layer = std::make_shared<LayerWeights>();
  const at::Device device = placement_.layer(index);
  const LayerTensors tensors_of_layer(*layer, config_, *stored_, decoder_, index);
  for (const Wanted& tensor : tensors_of_layer.tensors())
    if (tensor.target != nullptr)
      *tensor.target = bind_tensor(tensor.name, bound_dtype(tensor, *stored_, dtype_), device);
  for (const Fused& fused : tensors_of_layer.fused()) {
    const at::Tensor whole = bind_tensor(fused.name, dtype_, device);
    const at::Tensor groups = whole.unflatten(0, {fused.n_groups, -1});
    std::int64_t row = 0;
    for (const Place& place : fused.places) {
      const at::Tensor rows = groups.narrow(1, row, place.rows).flatten(0, 1);
      *place.target = place.target->defined() ? at::cat({*place.target, rows}) : rows;
      row += place.rows;
    }
  }
  if (layer->sinks.defined()) {
    layer->sinks = layer->sinks.to(at::kCPU).to(at::kFloat);
    // They are no numbers that anything is computed from, and would be lost in the softmax.
    if (!at::all(layer->sinks < std::numeric_limits<float>::infinity()).item<bool>())
      throw FileError(fmt::format("{}: sinks of layer {} hold NaN or infinity, expected numbers",
                                  stored_->source(), index));
  }
  if (layer->expert_scale.defined()) layer->expert_scale = layer->expert_scale.to(at::kCPU);
  // What the router sees is divided by √D besides.
  if (layer->router_norm.defined())
    layer->router_norm = layer->router_norm / std::sqrt(static_cast<double>(config_.hidden_size));
  if (config_.value_norm && layer->wk.defined())
    layer->value_norm = at::ones({config_.heads(index).head_dim}, layer->wk.options());
  layer->experts = experts_of(tensors_of_layer, *stored_, config_.experts.n, {dtype_, device});
  if (residency_ == Residency::kWhole) layer->experts.read_all();
  return layer;
}

at::Tensor WeightStore::bind_tensor(const std::string& name, at::ScalarType dtype, at::Device device) const {
  return Reading{dtype, device}(*stored_->find(name));
}

void WeightStore::prefetch(int index) const {
  if (residency_ == Residency::kWhole || index < 0 || index >= config_.n_layers) return;
  advise(index, MADV_WILLNEED);
  if (read_ahead_ != nullptr) begin_reading(index);
}

void WeightStore::release(int index) const { advise(index, MADV_DONTNEED); }

void WeightStore::advise(int index, int advice) const {
  if (residency_ == Residency::kWhole || index < 0 || index >= config_.n_layers) return;
  LayerWeights unused;
  const LayerTensors tensors_of_layer(unused, config_, *stored_, decoder_, index);
  for (const Wanted& tensor : tensors_of_layer.tensors()) advise_pages(*stored_->find(tensor.name), advice);
  if (advice == MADV_WILLNEED) return;  // which experts are asked for is not known yet
  for (const Wanted& tensor : tensors_of_layer.expert_tensors())
    advise_pages(*stored_->find(tensor.name), advice);
}

WeightBytes weight_bytes(const StoredWeights& stored, const ModelConfig& config, at::ScalarType dtype) {
  const TensorNames names = tensor_names(stored);
  at::Tensor embedding, head, norm;
  LayerInputWeights layer_input;
  const std::string layers = names.decoder + std::string(kLayers);
  WeightBytes bytes;
  std::map<std::string, std::int64_t, std::less<>> by_layer;
  for (const Wanted& wanted : decoder_tensors(
           config, stored, names, outer_tensors(embedding, head, norm, layer_input, config, names, stored))) {
    const std::int64_t n = stored.find(wanted.name)->n_elements() *
                           static_cast<std::int64_t>(c10::elementSize(bound_dtype(wanted, stored, dtype)));
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
