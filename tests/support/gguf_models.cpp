#include "tests/support/gguf_models.hpp"

#include <cstdint>
#include <cstring>
#include <fstream>

#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "tests/support/random_model.hpp"

namespace keyscope::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// The tensors of a sound safetensors file, without those of a layer and what is behind it.
TensorMap first_layers(const fs::path& path, int n_layers) {
  const std::string bytes = read_file(path);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const std::string_view data = std::string_view(bytes).substr(8 + length);
  const Json header = Json::parse(bytes.substr(8, length));
  TensorMap tensors;
  for (const auto& [name, info] : header.items()) {
    const auto at = name.find(".layers.");
    if (name == "__metadata__" || (at != name.npos && std::stoi(name.substr(at + 8)) >= n_layers)) continue;
    const std::size_t begin = info["data_offsets"][0], end = info["data_offsets"][1];
    tensors[name] = {info["dtype"], info["shape"], std::string(data.substr(begin, end - begin))};
  }
  return tensors;
}

}  // namespace

const std::vector<std::string>& gguf_models() {
  static const std::vector<std::string> kNames{
      "tiny_llama3", "tiny_mixtral",       "tiny_ministral3", "tiny_smollm3",   "tiny_granite",
      "tiny_qwen2",  "tiny_qwen2_moe",     "tiny_qwen3",      "tiny_qwen3_moe", "tiny_gemma2",
      "tiny_gemma3", "tiny_phi3_longrope", "tiny_olmo2",      "tiny_olmo3",     "tiny_glm",
      "tiny_glm4",   "tiny_gpt_oss"};
  return kNames;
}

fs::path gguf_golden(const std::string& name) {
  return fs::path(KEYSCOPE_SOURCE_DIR) / "tests/capture/model/goldens" / (name + ".gguf");
}

HuggingFaceTwin::HuggingFaceTwin(const std::string& name) {
  const fs::path original = inference_golden(name);
  Json config = Json::parse(read_file(original / "config.json"));
  int n_layers = config["num_hidden_layers"];
  // What Gemma divides queries by stands in no GGUF file, nor where gpt-oss cuts its activations.
  if (name.starts_with("tiny_gemma")) config["query_pre_attn_scalar"] = config["head_dim"];
  if (name == "tiny_gpt_oss") config.erase("swiglu_limit");
  // Nor which layers of Gemma 3 and SmolLM3 are which: they are as the models that are known have them.
  for (const char* field : {"no_rope_layers", "no_rope_layer_interval", "use_sliding_window"})
    if (name == "tiny_smollm3") config.erase(field);
  for (const char* field : {"layer_types", "sliding_window_pattern"})
    if (name == "tiny_gemma3" || name == "tiny_smollm3") config.erase(field);
  if (config["eos_token_id"].is_array()) config["eos_token_id"] = config["eos_token_id"][0];
  // The converter looks for these under the names of GLM's first makers, and has others where it finds none.
  if (name == "tiny_glm") {
    config["max_position_embeddings"] = config["hidden_size"];
    config["rms_norm_eps"] = 1e-5;
  }
  // Every layer has experts there, or none.
  if (config.contains("mlp_only_layers") && !config["mlp_only_layers"].empty()) {
    n_layers = config["mlp_only_layers"][0];
    config["num_hidden_layers"] = n_layers;
    config["mlp_only_layers"] = Json::array();
  }
  std::ofstream(folder_.file("model.safetensors"), std::ios::binary)
      << safetensors_of(first_layers(original / "model.safetensors", n_layers));
  std::ofstream(folder_.file("config.json")) << json_text(config);
}

}  // namespace keyscope::test
