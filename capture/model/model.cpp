#include "capture/model/model.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "base/sha256.hpp"
#include "capture/model/safetensors.hpp"

namespace keyscope::capture {

namespace {

constexpr std::size_t kPiece = std::size_t{4} << 20;  // bytes; some milliseconds

// The weights of one checkpoint on their way into a hash.
class WeightHashing {
 public:
  WeightHashing(const Checkpoint& checkpoint, const HashProgress& progress) : progress_(progress) {
    for (const WeightFile& file : checkpoint.files()) n_bytes_ += std::ssize(file.data);
  }

  void add(std::string_view data, Sha256& hash) {
    for (std::size_t begin = 0; begin < data.size(); begin += kPiece) {
      const std::string_view piece = data.substr(begin, kPiece);
      hash.add(piece);
      n_hashed_ += std::ssize(piece);
      if (progress_) progress_(n_hashed_, n_bytes_);
    }
  }

 private:
  const HashProgress& progress_;
  std::int64_t n_hashed_ = 0, n_bytes_ = 0;
};

}  // namespace

std::string model_hash(const ModelConfig& config, const Checkpoint& checkpoint, bool with_weights,
                       const HashProgress& progress) {
  constexpr std::string_view kZero("\0", 1);
  Sha256 hash;
  WeightHashing weights(checkpoint, progress);
  hash.add(config.raw_json);
  for (const WeightFile& file : checkpoint.files()) {
    hash.add(file.path.filename().string());
    hash.add(kZero);
    hash.add(std::to_string(file.n_bytes));
    hash.add(kZero);
    hash.add(file.header);
    if (with_weights) weights.add(file.data, hash);
  }
  return hash.hex();
}

std::string sha256_with_weights(const Model& model, const HashProgress& progress) {
  return model_hash(model.config(), Checkpoint(model.folder()), true, progress);
}

recording::ModelInfo model_info(const ModelConfig& config, std::string name) {
  return {config.raw_json,   std::move(name), config.n_layers,    config.n_heads,
          config.n_kv_heads, config.head_dim, config.layer_heads, config.layer_lenders};
}

}  // namespace keyscope::capture
