#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/random_model.hpp"

namespace keyscope::test {

// A way to pack weights: what config.json says of it, and one weight in it. All bits of a packed weight mean
// something, so that random ones are a weight.
struct RandomPacking {
  std::string name;
  nlohmann::ordered_json config;  // `quantization_config`
  std::string form;               // as StoredWeight::form says
  // Adds the parts of MODULE.weight (rows, columns); the two are multiples of 32.
  void (*add)(TensorMap& tensors, const std::string& module, std::int64_t rows, std::int64_t columns,
              std::uint64_t& state);
};

const std::vector<RandomPacking>& random_packings();
const RandomPacking& random_packing(const std::string& name);

// The same model with the projections of all layers packed at random, those of experts as well.
void pack_projections(RandomModel& model, const RandomPacking& packing);

// The names of a model's projections, without ".weight".
std::vector<std::string> projections(const RandomModel& model);

}  // namespace keyscope::test
