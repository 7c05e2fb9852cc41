#include <algorithm>

#include <Eigen/Core>
#include <fmt/format.h>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/score_parts.hpp"
#include "analysis/similarity.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {

namespace {

class Leverage : public Policy {
 public:
  void score(const PolicyInput& input, std::span<double> scores) const override {
    Eigen::Map<Eigen::ArrayXd>(scores.data(), input.keys.rows()) =
        leverages(input.keys.cast<double>(), "leverage");
  }
};

std::unique_ptr<Policy> make_leverage(const PolicySpec&) { return std::make_unique<Leverage>(); }

}  // namespace

PolicyDefinition leverage_definition() {
  return {"leverage", "keys that the others span least stay (leverage scores)", {}, make_leverage};
}

namespace {

class Cur : public Policy {
 public:
  Cur(std::int64_t window, std::int64_t sinks) : window_(window), sinks_(sinks) {}

  PolicyNeeds needs() const override {
    PolicyNeeds needs;
    needs.values = true;
    return needs;
  }

  void score(const PolicyInput& input, std::span<double> scores) const override {
    if (input.values.rows() != input.keys.rows())
      throw InvalidInput(
          fmt::format("policy cur: {} keys, but {} values", input.keys.rows(), input.values.rows()));
    const Eigen::VectorXd keys = row_norms(input.keys), values = row_norms(input.values);
    Eigen::Map<Eigen::ArrayXd> all(scores.data(), input.keys.rows());
    all = (keys.array() * values.array()).square();
    if (window_ == 0) return;
    for (Eigen::Index first = 0; first < all.size(); first += window_) {
      const Eigen::Index n = std::min<Eigen::Index>(window_, all.size() - first);
      const double sums = keys.segment(first, n).squaredNorm() * values.segment(first, n).squaredNorm();
      if (sums > 0) all.segment(first, n) /= sums;
    }
  }

  void force(const PolicyInput& /*input*/, std::int64_t budget,
             std::span<std::uint8_t> forced) const override {
    std::fill_n(forced.begin(), std::min({sinks_, budget, std::ssize(forced)}), std::uint8_t{1});
  }

 private:
  std::int64_t window_, sinks_;
};

std::unique_ptr<Policy> make_cur(const PolicySpec& spec) {
  constexpr std::uint64_t kMost = 1 << 16;
  return std::make_unique<Cur>(static_cast<std::int64_t>(read_whole_number(spec, "window", 0, kMost)),
                               static_cast<std::int64_t>(read_whole_number(spec, "sinks", 0, kMost)));
}

}  // namespace

PolicyDefinition cur_definition() {
  return {"cur",
          "rows of large key and value norms stay (CUR)",
          {{"window", "0…65536", "0"}, {"sinks", "0…65536", "0"}},
          make_cur};
}

}  // namespace keyscope::analysis
