#include "capture/inference/libtorch_engine.hpp"

#include "capture/model/rope.hpp"

namespace keyscope::capture {

RotaryAngles LibTorchEngine::rotary_angles(const ModelConfig& config, std::int64_t n) const {
  const RotaryTable table = Rope(config).table(0, n);
  const auto values = [](const at::Tensor& of) {
    const auto* data = of.const_data_ptr<float>();
    return std::vector<float>(data, data + of.numel());
  };
  return {values(table.cos), values(table.sin)};
}

}  // namespace keyscope::capture

extern "C" const keyscope::capture::Engine* keyscope_engine() {
  static const keyscope::capture::LibTorchEngine engine;
  return &engine;
}
