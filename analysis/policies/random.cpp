#include "analysis/policies/random.hpp"

#include <limits>

#include "analysis/policies/option_values.hpp"

namespace keyscope::analysis {
namespace {

// The output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a bijection that mixes every bit.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

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
  std::uint64_t hash = mix(seed);
  hash = mix(hash ^ static_cast<std::uint32_t>(layer));
  hash = mix(hash ^ static_cast<std::uint32_t>(kv_head));
  hash = mix(hash ^ static_cast<std::uint32_t>(position));
  return static_cast<double>(hash >> 11) * 0x1p-53;
}

PolicyDefinition random_definition() {
  return {
      "random", "a uniform sample of all tokens seen stays", {{"seed", "a whole number", ""}}, make_random};
}

}  // namespace keyscope::analysis
