// libFuzzer: whatever a config.json says, it is read or refused with a FileError, and what is read is a shape
// that the engine can rely upon. Run with a folder of seeds:
//   cmake --preset fuzz && cmake --build --preset fuzz --target fuzz_config
//   build/fuzz/fuzz_config -max_len=16384 CORPUS

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/errors.hpp"
#include "capture/model/config.hpp"
#include "capture/model/products.hpp"

namespace {

using keyscope::capture::ModelConfig;

void require(bool holds) {
  if (!holds) std::abort();
}

template <typename T>
bool empty_or_one_per_layer(const std::vector<T>& list, const ModelConfig& config) {
  return list.empty() || static_cast<int>(list.size()) == config.n_layers;
}

void check(const ModelConfig& config) {
  require(config.n_layers > 0 && config.n_heads > 0 && config.n_kv_heads > 0);
  require(config.n_heads % config.n_kv_heads == 0);
  require(config.head_dim > 0 && config.rotary_dim > 0 && config.rotary_dim <= config.head_dim);
  require(config.rotary_dim % 2 == 0);
  require(empty_or_one_per_layer(config.layer_windows, config));
  require(empty_or_one_per_layer(config.layer_rotates, config));
  require(empty_or_one_per_layer(config.layer_attends, config));
  require(empty_or_one_per_layer(config.layer_experts, config));
  require(config.n_attending() > 0);
  const auto& experts = config.experts;
  require(experts.per_token <= experts.n);
  if (experts.n > 0)
    require(experts.n % experts.n_groups == 0 && experts.chosen_groups <= experts.n_groups &&
            experts.per_token <= experts.n / experts.n_groups * experts.chosen_groups);
  require(keyscope::capture::feed_forward_size(config) > 0);
  require(std::isfinite(keyscope::capture::token_products(config)));
  for (int layer = 0; layer < config.n_layers; ++layer) {
    const auto rules = keyscope::capture::attention_rules(config, layer);
    require(std::isfinite(rules.scale) && rules.scale > 0 && rules.window >= 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto config =
        keyscope::capture::parse_config(std::string(reinterpret_cast<const char*>(data), size), "fuzzed");
    check(config);
  } catch (const keyscope::FileError&) {
  }
  return 0;
}
