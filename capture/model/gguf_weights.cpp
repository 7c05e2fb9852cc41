#include "capture/model/gguf_weights.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "capture/model/gguf_architecture.hpp"

namespace keyscope::capture {

namespace {

using gguf::Tensor;

// What Hugging Face calls a layer's tensor, without the layer and ".weight"; "{}" is an expert's number.
// Empty where the family has none of this name.
std::string layer_name(const GgufArchitecture& architecture, std::string_view part) {
  for (const auto& [gguf, hugging_face] : architecture.names)
    if (part == gguf) return std::string(hugging_face);
  const Family& family = architecture.family();
  const NormNames& norms = family.norms;
  const ExpertsRule& rule = family.experts;
  const std::string mlp(family.mlp.prefix), experts(rule.prefix);
  const std::string each = fmt::format("{}{}{{}}.", experts, rule.names.prefix);
  const std::string shared = fmt::format("{}{}", experts, rule.shared.prefix);
  const auto of = [](const std::string& before, std::string_view name) {
    return name.empty() ? std::string() : fmt::format("{}{}", before, name);
  };
  const std::initializer_list<std::pair<std::string_view, std::string>> names{
      {"attn_norm", of("", norms.attention)},
      {"post_attention_norm", of("", norms.after_attention)},
      {"ffn_norm", of("", norms.mlp)},
      {"post_ffw_norm", of("", norms.after_mlp)},
      {"attn_q", "self_attn.q_proj"},
      {"attn_k", "self_attn.k_proj"},
      {"attn_v", "self_attn.v_proj"},
      {"attn_qkv", "self_attn.qkv_proj"},
      {"attn_output", "self_attn.o_proj"},
      {"attn_q_norm", "self_attn.q_norm"},
      {"attn_k_norm", "self_attn.k_norm"},
      {"attn_sinks", "self_attn.sinks"},
      {"ffn_gate", mlp + std::string(family.mlp.gate)},
      {"ffn_up", mlp + std::string(family.mlp.gate_up.empty() ? family.mlp.up : family.mlp.gate_up)},
      {"ffn_down", mlp + std::string(family.mlp.down)},
      {"ffn_gate_inp", of(experts, rule.router_name)},
      {"ffn_gate_exps", of(each, rule.names.gate)},
      {"ffn_up_exps", of(each, rule.names.up)},
      {"ffn_down_exps", of(each, rule.names.down)},
      {"ffn_gate_inp_shexp", of(experts, rule.shared_gate)},
      {"ffn_gate_shexp", of(shared, rule.shared.gate)},
      {"ffn_up_shexp", of(shared, rule.shared.up)},
      {"ffn_down_shexp", of(shared, rule.shared.down)},
  };
  const auto* found = std::ranges::find(names, part, &std::pair<std::string_view, std::string>::first);
  return found == names.end() ? std::string() : found->second;
}

// What it calls those outside of layers.
std::string_view outer_name(std::string_view stem) {
  if (stem == "token_embd") return "model.embed_tokens";
  if (stem == "output_norm") return "model.norm";
  return stem == "output" ? "lm_head" : "";
}

// What is taken of a stored tensor, and what is done to it.
struct View {
  Shape shape;
  std::int64_t first_entry = 0;  // of the stored tensor's own first dimension, or of its first two joined
  std::int64_t head_rows = 0;    // of a head whose rows are interleaved; 0: they are not
  float shift = 0;               // added to every value
};

class GgufWeight : public StoredWeight {
 public:
  GgufWeight(const Tensor& tensor, View view)
      : tensor_(tensor), view_(std::move(view)), form_(tensor.format->name) {
    for (std::size_t i = 1; i < view_.shape.size(); ++i) n_values_ *= view_.shape[i];
  }

  const Shape& shape() const override { return view_.shape; }
  const std::string& form() const override { return form_; }
  const std::string& file() const override { return tensor_.file; }

  bool is_plain() const override {
    return (form_ == "F32" || form_ == "BF16" || form_ == "F16") && view_.head_rows == 0 && view_.shift == 0;
  }

  // Of interleaved rows all that those of their heads take.
  std::vector<std::span<const std::byte>> bytes(std::int64_t first, std::int64_t n) const override {
    std::int64_t end = first + n;
    if (view_.head_rows > 0) {
      first = first / view_.head_rows * view_.head_rows;
      end = (end + view_.head_rows - 1) / view_.head_rows * view_.head_rows;
    }
    const auto& format = *tensor_.format;
    // Entries of a vector may end within a block.
    const std::int64_t begin_value = (view_.first_entry + first) * n_values_;
    const std::int64_t end_value = (view_.first_entry + end) * n_values_;
    const std::int64_t begin = begin_value / format.n_values * format.n_bytes;
    const std::int64_t end_byte = (end_value + format.n_values - 1) / format.n_values * format.n_bytes;
    return {
        tensor_.data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end_byte - begin))};
  }

  void unpack(std::int64_t first, std::int64_t n, float* out) const override {
    if (view_.head_rows == 0) {
      unpack_values((view_.first_entry + first) * n_values_, n * n_values_, out);
    } else {
      for (std::int64_t row = first; row < first + n; ++row, out += n_values_)
        unpack_values((view_.first_entry + stored_row(row)) * n_values_, n_values_, out);
      out -= n * n_values_;
    }
    if (view_.shift == 0) return;
    for (std::int64_t i = 0; i < n * n_values_; ++i) out[i] += view_.shift;
  }

  void check_form(const std::string& name) const override {
    if (tensor_.format->unpack == nullptr)
      throw FileError(fmt::format("{}: tensor {} is {}, expected {} (others are not supported)", file(), name,
                                  form_, gguf::supported_block_formats()));
  }

 private:
  // Of a head the first half of the rows are the even ones that are stored, the second half the odd ones.
  std::int64_t stored_row(std::int64_t row) const {
    const std::int64_t half = view_.head_rows / 2, within = row % view_.head_rows;
    return row - within + within % half * 2 + within / half;
  }

  // Any values, also those that begin or end within a block.
  void unpack_values(std::int64_t first, std::int64_t n, float* out) const {
    const auto& [id, name, n_values, n_bytes, unpack] = *tensor_.format;
    const auto block = [&](std::int64_t index) { return tensor_.data.data() + index * n_bytes; };
    std::vector<float> values;
    while (n > 0) {
      const std::int64_t within = first % n_values;
      const std::int64_t whole = within == 0 ? n / n_values : 0;
      if (whole > 0) {
        unpack(block(first / n_values), whole, out);
      } else {
        values.resize(static_cast<std::size_t>(n_values));
        unpack(block(first / n_values), 1, values.data());
        std::copy_n(values.begin() + within, std::min(n, n_values - within), out);
      }
      const std::int64_t n_done = whole > 0 ? whole * n_values : std::min(n, n_values - within);
      first += n_done;
      n -= n_done;
      out += n_done;
    }
  }

  const Tensor& tensor_;
  View view_;
  std::string form_;
  std::int64_t n_values_ = 1;  // of an entry
};

// Takes the tensors one after another into Hugging Face's names.
class Renaming {
 public:
  explicit Renaming(const gguf::Container& file) : architecture_(gguf_architecture(file)) {
    const GgufFields fields(file);
    n_heads_ = fields.count("attention.head_count");
    n_kv_heads_ = fields.count_or("attention.head_count_kv", n_heads_);
    n_experts_ = fields.count_or("expert_count", 0);
    for (const auto& [name, tensor] : file.tensors()) add(name, *tensor);
  }

  std::map<std::string, std::unique_ptr<StoredWeight>, std::less<>> take() { return std::move(weights_); }

 private:
  [[noreturn]] void fail(std::string_view name, const Tensor& tensor, const std::string& what) const {
    throw FileError(fmt::format("{}: tensor {}: {}", tensor.file, shown(name), what));
  }

  void add(std::string_view name, const Tensor& tensor) {
    if (name.starts_with("rope_")) return;
    const auto dot = name.rfind('.');
    const std::string_view stem = name.substr(0, dot), suffix = dot == name.npos ? "" : name.substr(dot);
    if (suffix == ".weight" || suffix == ".bias") {
      if (const auto outer = outer_name(stem); !outer.empty())
        return put(fmt::format("{}{}", outer, suffix), tensor, whole(tensor));
      if (stem.starts_with("blk.")) return add_of_layer(name, stem.substr(4), suffix, tensor);
    }
    fail(name, tensor, fmt::format("it has no place in the architecture {}", architecture_.name));
  }

  void add_of_layer(std::string_view name, std::string_view rest, std::string_view suffix,
                    const Tensor& tensor) {
    int layer = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
    const std::string_view part = rest.substr(std::min<std::size_t>(end - rest.data() + 1, rest.size()));
    if (error != std::errc() || end == rest.data() + rest.size() || *end != '.')
      fail(name, tensor, "expected blk.LAYER.NAME");
    if (part == "attn_rot_embd") return;  // frequencies, in old files
    const std::string place = layer_name(architecture_, part);
    if (place.empty())
      fail(name, tensor, fmt::format("it has no place in the architecture {}", architecture_.name));
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    if (part == "attn_qkv" && !architecture_.family().fused_qkv)
      return add_parts(name, prefix, suffix, tensor);
    if (const auto number = place.find("{}"); number != place.npos)
      return add_experts(name, prefix + place.substr(0, number),
                         fmt::format("{}{}", place.substr(number + 2), suffix), tensor);
    View view = whole(tensor);
    if (part == "attn_q") view.head_rows = interleaved(name, tensor, view.shape.front(), n_heads_);
    if (part == "attn_k") view.head_rows = interleaved(name, tensor, view.shape.front(), n_kv_heads_);
    // Stored as a vector, and a matrix of one row elsewhere.
    if (part == "ffn_gate_inp_shexp" && view.shape.size() == 1) view.shape.insert(view.shape.begin(), 1);
    // These are no module's weights.
    const std::string_view ending = part == "attn_sinks" ? "" : suffix;
    put(fmt::format("{}{}{}", prefix, place, ending), tensor, std::move(view));
  }

  // q, k and v one above the other.
  void add_parts(std::string_view name, const std::string& prefix, std::string_view suffix,
                 const Tensor& tensor) {
    const std::int64_t n_all = n_heads_ + 2 * n_kv_heads_, rows = tensor.shape.front();
    if (n_all == 0 || rows % n_all != 0)
      fail(name, tensor, fmt::format("it has {} rows, expected those of {} heads", rows, n_all));
    std::int64_t first = 0;
    for (const auto& [part, n] : {std::pair{"q", n_heads_}, {"k", n_kv_heads_}, {"v", n_kv_heads_}}) {
      View view = whole(tensor);
      view.shape.front() = rows / n_all * n;
      view.first_entry = first;
      first += view.shape.front();
      if (*part != 'v') view.head_rows = interleaved(name, tensor, view.shape.front(), n);
      put(fmt::format("{}self_attn.{}_proj{}", prefix, part, suffix), tensor, std::move(view));
    }
  }

  void add_experts(std::string_view name, const std::string& before, const std::string& behind,
                   const Tensor& tensor) {
    if (tensor.shape.size() < 2 || tensor.shape.front() != n_experts_)
      fail(name, tensor,
           fmt::format("it is [{}], expected {} experts along the first dimension", shown_list(tensor.shape),
                       n_experts_));
    for (std::int64_t i = 0; i < tensor.shape.front(); ++i) {
      View view;
      view.shape.assign(tensor.shape.begin() + 1, tensor.shape.end());
      view.first_entry = i * view.shape.front();
      put(fmt::format("{}{}{}", before, i, behind), tensor, std::move(view));
    }
  }

  static View whole(const Tensor& tensor) { return {.shape = tensor.shape}; }

  std::int64_t interleaved(std::string_view name, const Tensor& tensor, std::int64_t rows,
                           std::int64_t n_heads) const {
    if (!architecture_.permuted) return 0;
    if (n_heads == 0 || rows % (2 * n_heads) != 0)
      fail(name, tensor,
           fmt::format("it has {} rows, expected pairs of them in each of {} heads", rows, n_heads));
    return rows / n_heads;
  }

  void put(std::string name, const Tensor& tensor, View view) {
    if (architecture_.family().unit_offset_norms && name.ends_with("norm.weight")) view.shift = -1;
    const std::string& key = name;
    if (weights_.contains(key)) fail(key, tensor, "two tensors of the file are this one");
    weights_.emplace(std::move(name), std::make_unique<GgufWeight>(tensor, std::move(view)));
  }

  const GgufArchitecture& architecture_;
  std::int64_t n_heads_ = 0, n_kv_heads_ = 0, n_experts_ = 0;
  std::map<std::string, std::unique_ptr<StoredWeight>, std::less<>> weights_;
};

}  // namespace

std::map<std::string, std::unique_ptr<StoredWeight>, std::less<>> gguf_weights(const gguf::Container& file) {
  return Renaming(file).take();
}

}  // namespace keyscope::capture
