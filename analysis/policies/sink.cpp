#include <limits>

#include "analysis/policies/registry.hpp"

namespace keyscope::analysis {
namespace {

class Sink : public Policy {
 public:
  explicit Sink(std::int64_t first) : first_(first) {}

  void score(const PolicyInput& input, std::span<double> scores) const override {
    for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<double>(input.positions[i]);
  }

  void force(const PolicyInput& input, std::int64_t budget, std::span<std::uint8_t> forced) const override {
    std::int64_t n_forced = 0;
    for (std::size_t i = 0; i < forced.size() && input.positions[i] < first_ && n_forced < budget; ++i) {
      forced[i] = 1;
      ++n_forced;
    }
  }

 private:
  std::int64_t first_;
};

std::unique_ptr<Policy> make_sink(const PolicySpec& spec) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
  return std::make_unique<Sink>(static_cast<std::int64_t>(read_whole_number(spec, "first", 0, kMost)));
}

}  // namespace

PolicyDefinition sink_definition() {
  return {"sink",
          "the first tokens and the most recent ones stay (StreamingLLM)",
          {{"first", "0…", "4"}},
          make_sink};
}

}  // namespace keyscope::analysis
