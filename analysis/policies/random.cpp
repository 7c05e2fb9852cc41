#include <limits>

#include "analysis/policies/registry.hpp"
#include "analysis/splitmix.hpp"

namespace keyscope::analysis {
namespace {

class Random : public Policy {
 public:
  explicit Random(std::uint64_t seed) : seed_(seed) {}

  void score(const PolicyInput& input, std::span<double> scores) const override {
    for (std::size_t i = 0; i < scores.size(); ++i)
      scores[i] = uniform_draw(seed_, input.layer, input.kv_head, input.positions[i]);
  }

 private:
  std::uint64_t seed_;
};

std::unique_ptr<Policy> make_random(const PolicySpec& spec) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  return std::make_unique<Random>(read_whole_number(spec, "seed", 0, kMost));
}

}  // namespace

double uniform_draw(std::uint64_t seed, int layer, int kv_head, std::int32_t position) {
  std::uint64_t hash = splitmix(seed);
  hash = splitmix(hash ^ static_cast<std::uint32_t>(layer));
  hash = splitmix(hash ^ static_cast<std::uint32_t>(kv_head));
  hash = splitmix(hash ^ static_cast<std::uint32_t>(position));
  return unit_interval(hash);
}

PolicyDefinition random_definition() {
  return {
      "random", "a uniform sample of all tokens seen stays", {{"seed", "a whole number", ""}}, make_random};
}

}  // namespace keyscope::analysis
