#include <cstddef>
#include <utility>
#include <vector>

#include <Eigen/Core>
#include <fmt/format.h>

#include "analysis/policies/registry.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

class QFilters final : public Policy {
 public:
  HeadFile head_file() const override { return HeadFile::kVectors; }
  void take_file(std::vector<RowMatrixF> layers) override { filters_ = std::move(layers); }

  void score(const PolicyInput& input, std::span<double> scores) const override {
    const Eigen::VectorXd filter = filter_of(input);
    Eigen::Map<Eigen::VectorXd>(scores.data(), input.keys.rows()).noalias() =
        input.keys.cast<double>() * -filter;
  }

 private:
  Eigen::VectorXd filter_of(const PolicyInput& input) const {
    const auto layer = static_cast<std::size_t>(input.layer);
    const bool known = layer < filters_.size() && input.kv_head < filters_[layer].rows();
    if (!known || filters_[layer].cols() != input.keys.cols())
      throw InvalidInput(
          fmt::format("policy qfilters: there is no filter of {} numbers for layer {}, KV head {}; its file "
                      "is read for a model or a recording",
                      input.keys.cols(), input.layer, input.kv_head));
    return filters_[layer].row(input.kv_head).transpose().cast<double>();
  }

  std::vector<RowMatrixF> filters_;  // by layer
};

}  // namespace

PolicyDefinition qfilters_definition() {
  return {"qfilters",
          "keys that point where the head's queries do stay, by a calibrated filter (Q-Filters)",
          {{"file", "PATH", "", true}},
          [](const PolicySpec&) -> std::unique_ptr<Policy> { return std::make_unique<QFilters>(); }};
}

}  // namespace keyscope::analysis
