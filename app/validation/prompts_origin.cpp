#include "app/validation/prompts_origin.hpp"

#include <utility>
#include <vector>

#include "base/sha256.hpp"

namespace keyscope::validation {
namespace {

recording::TokenText all_tokens(std::span<const Prompt> prompts, const tokenizer::Tokenizer* tokenizer) {
  recording::TokenText all{{}, "", {0}};
  for (const Prompt& prompt : prompts) {
    recording::TokenText one{prompt.ids, "", std::vector<std::int64_t>(prompt.ids.size() + 1)};
    if (tokenizer != nullptr) one = tokenizer->token_text(prompt.ids);
    const auto before = static_cast<std::int64_t>(all.text.size());
    all.id.insert(all.id.end(), one.id.begin(), one.id.end());
    all.text += one.text;
    for (std::size_t i = 1; i < one.offset.size(); ++i) all.offset.push_back(before + one.offset[i]);
  }
  return all;
}

std::string sha256_of(const std::vector<std::int32_t>& ids) {
  capture::Sha256 hash;
  hash.add({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(ids.front())});
  return hash.hex();
}

}  // namespace

recording::Origin prompts_origin(const capture::Model& model, const std::string& model_name,
                                 std::span<const Prompt> prompts, recording::Provenance provenance) {
  recording::Origin origin;
  origin.prompt = all_tokens(prompts, model.tokenizer());
  provenance.prompt_sha256 = sha256_of(origin.prompt.id);
  origin.provenance = std::move(provenance);
  const capture::ModelConfig& config = model.config();
  origin.model = {config.raw_json, model_name,        config.n_layers,
                  config.n_heads,  config.n_kv_heads, config.head_dim};
  return origin;
}

}  // namespace keyscope::validation
