#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

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

std::int64_t read_first(const PolicySpec& spec, const char* key) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
  return static_cast<std::int64_t>(read_whole_number(spec, key, 0, kMost));
}

std::unique_ptr<Policy> make_sink(const PolicySpec& spec) {
  return std::make_unique<Sink>(read_first(spec, "first"));
}

}  // namespace

PolicyDefinition sink_definition() {
  return {"sink",
          "the first tokens and the most recent ones stay (StreamingLLM)",
          {{"first", "0…", "4"}},
          make_sink};
}

namespace {

// Of a model of which it knows nothing, all heads stream.
class Duo final : public Sink {
 public:
  using Sink::Sink;

  HeadFile head_file() const override { return HeadFile::kFlags; }
  bool keeps_all(int layer, int kv_head) const override {
    return std::cmp_less(layer, file().size()) && kv_head < file()[layer].rows() &&
           file()[layer](kv_head, 0) == 0;  // 1 where the head streams
  }
};

std::unique_ptr<Policy> make_duo(const PolicySpec& spec) {
  return std::make_unique<Duo>(read_first(spec, "sinks"));
}

}  // namespace

PolicyDefinition duo_definition() {
  return {"duo",
          "listed heads keep the first tokens and the most recent ones, the others everything (DuoAttention)",
          {{"file", "PATH", "", true}, {"sinks", "0…", "4"}},
          make_duo};
}

}  // namespace keyscope::analysis
