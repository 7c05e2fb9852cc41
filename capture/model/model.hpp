#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/model/config.hpp"
#include "capture/model/memory.hpp"
#include "capture/model/safetensors.hpp"
#include "capture/recording/records.hpp"
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
  bool expand_keys = false;                   // of latent attention: see LatentConfig::expanded
  std::optional<Residency> residency = {};    // decided already
  std::optional<Arithmetic> arithmetic = {};  // on the CPU: of its two, to hold one against the other
};

// A model folder in Hugging Face layout or a GGUF file, loaded for inference. Safe to share between threads;
// it never changes.
class Model {
 public:
  // Reads config.json, or what a GGUF file has instead, maps the weights, checks every tensor's shape and
  // dtype before anything is allocated.
  //   throws FileError naming file, field, what was found and what was expected; Error where the
  //   device's memory is short, or the device is not there
  //   named: the folder, the file, or a folder that holds one GGUF file and no config.json
  static std::shared_ptr<const Model> load(const std::filesystem::path& named, const ModelOptions& options);

  virtual ~Model() = default;
  virtual const ModelConfig& config() const = 0;
  virtual const std::filesystem::path& folder() const = 0;  // or the GGUF file
  virtual const tokenizer::FolderTokenizer& folder_tokenizer() const = 0;
  // Null where the folder has none that can be used.
  const tokenizer::Tokenizer* tokenizer() const { return folder_tokenizer().get(); }
  virtual const Transformer& transformer() const = 0;

  // Over config.json's bytes, then for each weight file, ascending by name: its name, a zero byte, its size
  // as decimal digits, a zero byte, and its safetensors header. Of a GGUF file, over the text that stands for
  // its config.json, then the same, its header being all that lies before the tensors' bytes.
  virtual std::string model_sha256() const = 0;

  virtual std::string device_name() const = 0;        // as ComputeDevice has it
  virtual std::int64_t available_memory() const = 0;  // bytes that can still be taken where it computes
  virtual std::string dtype_name() const = 0;
  virtual std::string quantisation()
      const = 0;  // how its weights are packed in their files; empty: they are not
  virtual std::int64_t weight_bytes() const = 0;   // in memory at once, as this model's dtype
  virtual std::int64_t element_bytes() const = 0;  // of a number in its dtype
  // The most memory that this process has had at once where it computes, in bytes: on the CPU what was
  // resident since it was started, on another device what LibTorch took of it for tensors.
  virtual std::int64_t peak_memory() const = 0;
  virtual std::string library() const = 0;          // what computes it, with its version: "LibTorch 2.9.0"
  virtual std::string arithmetic_name() const = 0;  // "x86-64-v3", of the kernels, or "ATen"
  virtual Residency residency() const = 0;
  virtual int threads() const = 0;

  // Whether it gives next tokens: a model that was saved without its head does not.
  virtual bool has_head() const = 0;
  // What its user should know and nothing fails of, in sentences: tensors that are not used, a head that is
  // not there, a tokenizer that cannot be used.
  virtual std::vector<std::string> notes() const = 0;
};

// How far the hash over a model's weights has come: bytes of them, of all.
using HashProgress = std::function<void(std::int64_t n_hashed, std::int64_t n_bytes)>;

// SHA-256 in hex over config.json's bytes, then for each weight file, ascending by name: its name, a zero
// byte, its size as decimal digits, a zero byte, and its safetensors header; where they are asked for, behind
// that its data.
std::string model_hash(const ModelConfig& config, const Checkpoint& checkpoint, bool with_weights,
                       const HashProgress& progress = {});

// That with the weights. Tells checkpoints of one architecture apart, which Model::model_sha256 does not;
// reads all weights once.
//   throws FileError where the files cannot be read any more
std::string sha256_with_weights(const Model& model, const HashProgress& progress = {});

// Cosines and sines by which coordinates turn at positions 0 to n - 1: (n, rotary_dim / 2), row after row.
struct RotaryAngles {
  std::vector<float> cos, sin;
};
// By LibTorch, whose sines differ from the C library's in the last bit.
RotaryAngles rotary_angles(const ModelConfig& config, std::int64_t n);

// What a recording or a figure file says of a model.
recording::ModelInfo model_info(const ModelConfig& config, std::string name);

}  // namespace keyscope::capture
