#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "capture/model/arithmetic.hpp"
#include "capture/model/config.hpp"
#include "capture/model/memory.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::capture {

class Transformer;

// What a model computes in. kAuto: as config.json says, float32 if it says nothing.
enum class DType { kAuto, kFloat32, kBFloat16, kFloat16 };

struct ModelOptions {
  DType dtype = DType::kAuto;
  std::string device = "auto";  // auto, cpu, cuda; auto is CUDA where there is such a device
  int threads = 0;              // 0: as many as cores, one for models too small to gain by more
  // Whether layers' weights may come and go: under the layer schedule each is used once for all blocks. They
  // then do so if not all of them fit into memory.
  bool may_stream = false;
  std::optional<Residency> residency = {};    // decided already
  std::optional<Arithmetic> arithmetic = {};  // on the CPU: of its two, to hold one against the other
};

// A model folder in Hugging Face layout, loaded for inference. Safe to share between threads; it never
// changes.
class Model {
 public:
  // Reads config.json, maps the weights, checks every tensor's shape and dtype before anything is allocated.
  //   throws FileError naming file, field, what was found and what was expected; Error where the
  //   device's memory is short, or the device is not there
  static std::shared_ptr<const Model> load(const std::filesystem::path& folder, const ModelOptions& options);

  virtual ~Model() = default;
  virtual const ModelConfig& config() const = 0;
  virtual const std::filesystem::path& folder() const = 0;
  virtual const tokenizer::Tokenizer* tokenizer() const = 0;  // null where the folder has none
  virtual const Transformer& transformer() const = 0;

  // Over config.json's bytes, then for each weight file, ascending by name: its name, a zero byte, its size
  // as decimal digits, a zero byte, and its safetensors header.
  virtual std::string model_sha256() const = 0;

  virtual std::string device_name() const = 0;        // as ComputeDevice has it
  virtual std::int64_t available_memory() const = 0;  // bytes that can still be taken where it computes
  virtual std::string dtype_name() const = 0;
  virtual std::int64_t weight_bytes() const = 0;  // in memory at once, as this model's dtype
  virtual Residency residency() const = 0;
  virtual int threads() const = 0;
};

}  // namespace keyscope::capture
