#include <algorithm>

#include <fmt/format.h>

#include "analysis/policies/registry.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

class Tova : public Policy {
 public:
  explicit Tova(bool whole_layer) : whole_layer_(whole_layer) {}

  PolicyNeeds needs() const override {
    PolicyNeeds needs;
    (whole_layer_ ? needs.last_row_layer : needs.last_row_group) = true;
    return needs;
  }

  void score(const PolicyInput& input, std::span<double> scores) const override {
    const auto weights = whole_layer_ ? input.last_row_layer : input.last_row_group;
    if (weights.size() != scores.size())
      throw InvalidInput(fmt::format("policy tova: {} rows, but {} weights of the last query", scores.size(),
                                     weights.size()));
    std::copy(weights.begin(), weights.end(), scores.begin());
  }

 private:
  bool whole_layer_;
};

std::unique_ptr<Policy> make_tova(const PolicySpec& spec) {
  return std::make_unique<Tova>(read_choice(spec, "heads", {"group", "all"}) == 1);
}

}  // namespace

PolicyDefinition tova_definition() {
  return {"tova",
          "what the last query attends to most stays (TOVA)",
          {{"heads", "group|all", "group"}},
          make_tova};
}

}  // namespace keyscope::analysis
