#include "capture/model/weights_hash.hpp"

#include <string_view>

#include "capture/model/safetensors.hpp"
#include "capture/model/sha256.hpp"

namespace keyscope::capture {

std::string sha256_with_weights(const Model& model) {
  const Checkpoint checkpoint(model.folder());
  Sha256 hash;
  hash.add(model.config().raw_json);
  for (const auto& file : checkpoint.files()) {
    hash.add(file->path().filename().string());
    hash.add(std::string_view("\0", 1));
    hash.add(std::to_string(file->n_bytes()));
    hash.add(std::string_view("\0", 1));
    hash.add(file->header());
    hash.add(file->data());
  }
  return hash.hex();
}

}  // namespace keyscope::capture
