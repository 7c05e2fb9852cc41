#include <fmt/format.h>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/row_selection.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

class H2o : public Policy {
 public:
  H2o(double recent, bool normalize) : recent_(recent), normalize_(normalize) {}

  PolicyNeeds needs() const override {
    PolicyNeeds needs;
    needs.attention_received = true;
    return needs;
  }

  void score(const PolicyInput& input, std::span<double> scores) const override {
    if (input.attention_received.size() != scores.size() || input.attention_queries.size() != scores.size())
      throw InvalidInput(fmt::format("policy h2o: {} rows, but {} attention sums of {} counts", scores.size(),
                                     input.attention_received.size(), input.attention_queries.size()));
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const bool seen = input.attention_queries[i] > 0;
      const double divisor = normalize_ && seen ? input.attention_queries[i] : 1;
      scores[i] = input.attention_received[i] / divisor;
    }
  }

  void force(const PolicyInput& /*input*/, std::int64_t budget,
             std::span<std::uint8_t> forced) const override {
    force_recent(round_half_up(recent_, budget), budget, forced);
  }

 private:
  double recent_;
  bool normalize_;
};

std::unique_ptr<Policy> make_h2o(const PolicySpec& spec) {
  return std::make_unique<H2o>(read_fraction(spec, "recent"),
                               read_choice(spec, "normalize", {"0", "1"}) == 1);
}

}  // namespace

PolicyDefinition h2o_definition() {
  return {"h2o",
          "what has received most attention so far stays (H2O)",
          {{"recent", "0…1", "0"}, {"normalize", "0|1", "0"}},
          make_h2o};
}

}  // namespace keyscope::analysis
