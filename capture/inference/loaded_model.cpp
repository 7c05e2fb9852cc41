#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/headeronly/version.h>

#include "base/errors.hpp"
#include "capture/inference/libtorch_engine.hpp"
#include "capture/kernels/kernels.hpp"
#include "capture/model/compute_device.hpp"
#include "capture/model/gguf_config.hpp"
#include "capture/model/products.hpp"
#include "capture/model/safetensors.hpp"
#include "capture/model/transformer.hpp"
#include "capture/model/weights.hpp"

namespace keyscope::capture {

namespace {

namespace fs = std::filesystem;

at::ScalarType choose_dtype(DType wanted, const std::string& dtype) {
  switch (wanted) {
    case DType::kFloat32:
      return at::kFloat;
    case DType::kBFloat16:
      return at::kBFloat16;
    case DType::kFloat16:
      return at::kHalf;
    case DType::kAuto:
      break;
  }
  if (dtype == "bfloat16") return at::kBFloat16;
  if (dtype == "float16") return at::kHalf;
  return at::kFloat;
}

std::string name_of(at::ScalarType dtype) {
  if (dtype == at::kBFloat16) return "bfloat16";
  return dtype == at::kHalf ? "float16" : "float32";
}

Residency residency_for(const WeightBytes& needed, const ModelOptions& options, const fs::path& folder,
                        const ComputeDevice& device) {
  if (options.residency) return *options.residency;
  try {
    return choose_residency(needed, options.may_stream, device.available_memory());
  } catch (const Error& error) {
    throw Error(fmt::format("{}: on {}: {}", folder.string(), device.name(), error.what()));
  }
}

// The kernels are of the CPU.
Arithmetic arithmetic_for(const ModelOptions& options, const ComputeDevice& device) {
  return device.is_cpu() ? options.arithmetic.value_or(Arithmetic::kKernels) : Arithmetic::kAten;
}

// All cores, but one where a layer's products are so small that waking other threads costs more than it gains
// (and, on a busy machine, waiting for them costs most of all).
int default_threads(const ModelConfig& config) {
  constexpr std::int64_t kWorthSharing = 1 << 20;  // multiply-adds per token in one projection
  if (config.hidden_size * feed_forward_size(config) < kWorthSharing) return 1;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void check_threads(int wanted) {
  constexpr int kMostThreads = 1024;
  if (wanted < 0 || wanted > kMostThreads)
    throw UsageError(fmt::format("--threads: {} is not from 1 to {}", wanted, kMostThreads));
}

class LoadedModel : public Model {
 public:
  LoadedModel(fs::path folder, const ModelOptions& options)
      : folder_(std::move(folder)),
        config_(read_config(folder_)),
        checkpoint_(folder_),
        stored_(checkpoint_, config_.quantisation),
        device_(options.device) {
    if (options.expand_keys) capture::expand_keys(config_);
    // Packed weights are as good as float32 only where nothing says what they were packed from.
    const bool as_stored = config_.dtype == "auto" ||
                           (config_.dtype.empty() && config_.quantisation.method != QuantMethod::kNone);
    const at::ScalarType dtype =
        choose_dtype(options.dtype, as_stored ? stored_.float_dtype() : config_.dtype);
    const WeightBytes needed = capture::weight_bytes(stored_, config_, dtype);
    residency_ = residency_for(needed, options, folder_, device_);
    weight_bytes_ = residency_ == Residency::kWhole ? needed.all : needed.streamed();
    check_threads(options.threads);
    threads_ = options.threads > 0 ? options.threads : default_threads(config_);
    const c10::InferenceMode inference;
    transformer_ = Transformer::make(
        arithmetic_for(options, device_), config_,
        WeightStore(stored_, config_, dtype, residency_, Placement(device_.devices(), config_.n_layers)));
    tokenizer_ = tokenizer::FolderTokenizer(folder_);
  }

  const ModelConfig& config() const override { return config_; }
  const fs::path& folder() const override { return folder_; }
  const tokenizer::FolderTokenizer& folder_tokenizer() const override { return tokenizer_; }
  const Transformer& transformer() const override { return *transformer_; }
  std::string device_name() const override { return device_.name(); }
  std::int64_t available_memory() const override { return device_.available_memory(); }
  std::string dtype_name() const override { return name_of(transformer_->dtype()); }
  std::string quantisation() const override {
    return checkpoint_.gguf() != nullptr ? gguf_quantisation(*checkpoint_.gguf())
                                         : config_.quantisation.description();
  }
  std::int64_t weight_bytes() const override { return weight_bytes_; }
  std::int64_t element_bytes() const override {
    return static_cast<std::int64_t>(c10::elementSize(transformer_->dtype()));
  }
  std::int64_t peak_memory() const override { return capture::peak_memory(device_.devices()); }
  std::string library() const override {
    return fmt::format("LibTorch {}.{}.{}", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH);
  }
  std::string arithmetic_name() const override {
    return transformer_->arithmetic() == Arithmetic::kKernels ? kernels::best().level : "ATen";
  }
  bool has_head() const override { return transformer_->weights().head().defined(); }
  std::vector<std::string> notes() const override;
  Residency residency() const override { return residency_; }
  int threads() const override { return threads_; }

  std::string model_sha256() const override { return model_hash(config_, checkpoint_, false); }

 private:
  fs::path folder_;
  ModelConfig config_;
  Checkpoint checkpoint_;  // before the transformer, whose weights lie in it
  StoredWeights stored_;
  ComputeDevice device_;
  std::int64_t weight_bytes_ = 0;
  Residency residency_ = Residency::kWhole;
  int threads_ = 1;
  std::unique_ptr<Transformer> transformer_;
  tokenizer::FolderTokenizer tokenizer_;
};

std::vector<std::string> LoadedModel::notes() const {
  constexpr std::size_t kMostNamed = 5;
  std::vector<std::string> notes;
  const auto& unused = transformer_->weights().unused();
  const std::span named(unused.data(), std::min(unused.size(), kMostNamed));
  if (!unused.empty())
    notes.push_back(fmt::format("{}: {} of its tensors {} not part of the model and left out: {}{}",
                                folder().string(), unused.size(), unused.size() == 1 ? "is" : "are",
                                fmt::join(named, ", "), unused.size() > kMostNamed ? ", …" : ""));
  if (!has_head())
    notes.push_back(
        fmt::format("{}: holds no lm_head.weight, as it was saved without its head: keys, queries and "
                    "attention are there, next tokens and logits are not",
                    folder().string()));
  if (const std::string& refusal = folder_tokenizer().refusal(); !refusal.empty())
    notes.push_back(refusal + "; tokens are shown as their ids, and prompts are given as --prompt-ids");
  return notes;
}

}  // namespace

std::shared_ptr<const Model> LibTorchEngine::load_model(const fs::path& named,
                                                        const ModelOptions& options) const {
  std::error_code error;
  const fs::path folder = gguf::gguf_in(named).value_or(named);
  if (!fs::is_directory(folder, error) && !gguf::is_gguf(folder))
    throw FileError(
        fmt::format("{}: is no folder; expected a model folder with config.json, model.safetensors "
                    "and tokenizer.json, or a .gguf file",
                    folder.string()));
  return std::make_shared<LoadedModel>(folder, options);
}

}  // namespace keyscope::capture
