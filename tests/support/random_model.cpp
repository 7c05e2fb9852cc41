#include "tests/support/random_model.hpp"

#include <cmath>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "base/json.hpp"

namespace keyscope::test {

std::filesystem::path inference_golden(const std::string& name) {
  return std::filesystem::path(KEYSCOPE_SOURCE_DIR) / "tests/capture/inference/goldens" / name;
}

std::filesystem::path family_configs() {
  return std::filesystem::path(KEYSCOPE_SOURCE_DIR) / "tests/capture/model/goldens/family_configs.json";
}

std::string safetensors_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + header + data;
}

std::string safetensors_of(const TensorMap& tensors, std::size_t alignment) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t begin = data.size();
    data += tensor.bytes;
    header[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = json_text(header);
  while (text.size() % alignment != 0) text += ' ';
  return safetensors_of(text, data);
}

RandomModel::RandomModel(const RandomModelShape& shape, unsigned seed) : state_(seed) {
  config = {{"architectures", {"LlamaForCausalLM"}},
            {"model_type", "llama"},
            {"hidden_act", "silu"},
            {"hidden_size", shape.hidden_size},
            {"intermediate_size", shape.intermediate_size},
            {"num_hidden_layers", shape.n_layers},
            {"num_attention_heads", shape.n_heads},
            {"num_key_value_heads", shape.n_kv_heads},
            {"head_dim", shape.head_dim},
            {"vocab_size", shape.vocab_size},
            {"max_position_embeddings", shape.max_positions},
            {"rms_norm_eps", 1e-6},
            {"rope_theta", 10000.0},
            {"tie_word_embeddings", shape.tied},
            {"torch_dtype", "float32"},
            {"eos_token_id", 2}};
  const std::int64_t d = shape.hidden_size, f = shape.intermediate_size, v = shape.vocab_size;
  const std::int64_t head_dim = shape.head_dim, wide = shape.n_heads * head_dim,
                     narrow = shape.n_kv_heads * head_dim;
  const auto fan = [](std::int64_t n) { return 1.7F / std::sqrt(static_cast<float>(n)); };
  add("model.embed_tokens.weight", {v, d}, 1.7F);
  if (!shape.tied) add("lm_head.weight", {v, d}, 1.7F);
  add("model.norm.weight", {d}, 0.3F, 1);
  for (int i = 0; i < shape.n_layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    add(layer + "input_layernorm.weight", {d}, 0.3F, 1);
    add(layer + "post_attention_layernorm.weight", {d}, 0.3F, 1);
    add(layer + "self_attn.q_proj.weight", {wide, d}, fan(d));
    add(layer + "self_attn.k_proj.weight", {narrow, d}, fan(d));
    add(layer + "self_attn.v_proj.weight", {narrow, d}, fan(d));
    add(layer + "self_attn.o_proj.weight", {d, wide}, fan(wide));
    add(layer + "mlp.gate_proj.weight", {f, d}, fan(d));
    add(layer + "mlp.up_proj.weight", {f, d}, fan(d));
    add(layer + "mlp.down_proj.weight", {d, f}, fan(f));
  }
}

// Uniform in offset ± scale, by splitmix64 (Steele, Lea, Flood 2014).
void RandomModel::add(const std::string& name, std::vector<std::int64_t> shape, float scale, float offset) {
  std::size_t n = 1;
  for (const std::int64_t size : shape) n *= static_cast<std::size_t>(size);
  std::vector<float> values(n);
  for (float& value : values) {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    value = offset + scale * (static_cast<float>((z ^ (z >> 31)) >> 40) / 8388608.0F - 1);
  }
  std::string bytes(n * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  tensors[name] = {"F32", std::move(shape), std::move(bytes)};
}

const std::filesystem::path& RandomModel::save() const {
  write("config.json", json_text(config, 2));
  write("model.safetensors", safetensors_of(tensors));
  return folder_.path();
}

void RandomModel::write(const std::string& name, const std::string& bytes) const {
  std::ofstream file(folder_.file(name), std::ios::binary);
  file << bytes;
  if (!file.flush()) throw std::runtime_error("cannot write " + (folder_.file(name)).string());
}

}  // namespace keyscope::test
