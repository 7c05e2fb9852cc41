#include "capture/model/model_hash.hpp"

#include <string_view>

#include "capture/model/sha256.hpp"

namespace keyscope::capture {

std::string model_hash(const ModelConfig& config, const Checkpoint& checkpoint, bool with_weights) {
  constexpr std::string_view kZero("\0", 1);
  Sha256 hash;
  hash.add(config.raw_json);
  for (const auto& file : checkpoint.files()) {
    hash.add(file->path().filename().string());
    hash.add(kZero);
    hash.add(std::to_string(file->n_bytes()));
    hash.add(kZero);
    hash.add(file->header());
    if (with_weights) hash.add(file->data());
  }
  return hash.hex();
}

std::string sha256_with_weights(const Model& model) {
  return model_hash(model.config(), Checkpoint(model.folder()), true);
}

}  // namespace keyscope::capture
