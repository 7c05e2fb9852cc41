#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <Eigen/Core>

#include "analysis/policies/registry.hpp"

namespace keyscope::analysis {
namespace {

class LagKv final : public Policy {
 public:
  LagKv(std::int64_t sinks, std::int64_t lag) : sinks_(sinks), lag_(lag) {}

  PolicyNeeds needs() const override {
    PolicyNeeds needs;
    needs.values = true;
    return needs;
  }

  // Rows whose partition has no next one are forced, and their score is never looked at.
  void score(const PolicyInput& input, std::span<double> scores) const override {
    const std::int64_t n = std::ssize(scores);
    require_finite(input.keys, "policy lagkv: keys");  // ranges and ranks would hide what is not
    require_finite(input.values, "policy lagkv: values");
    std::ranges::fill(scores, 1.0);
    if (n_partitions(n) < 2) {
      for (std::int64_t row = sinks_; row < n; ++row)
        scores[row] = static_cast<double>(row - sinks_) / static_cast<double>(n - sinks_);
      return;
    }
    for (std::int64_t part = 0; part + 1 < n_partitions(n); ++part) {
      const std::int64_t first = sinks_ + part * lag_;
      rank(deviations(input.keys, first) + deviations(input.values, first), scores.subspan(first, lag_));
    }
  }

  void force(const PolicyInput& /*input*/, std::int64_t budget,
             std::span<std::uint8_t> forced) const override {
    const std::int64_t n = std::ssize(forced), most = std::min(budget, n);
    std::int64_t left = most;
    for (std::int64_t row = 0; row < std::min(sinks_, n) && left > 0; ++row, --left) forced[row] = 1;
    const std::int64_t parts = n_partitions(n);
    if (parts < 2) return;
    for (std::int64_t row = n - 1; row >= sinks_ + (parts - 1) * lag_ && left > 0; --row, --left)
      forced[row] = 1;
  }

 private:
  std::int64_t n_partitions(std::int64_t n_rows) const {
    return std::max<std::int64_t>(0, n_rows - sinks_) / lag_;
  }

  // Of a partition's rows, relative to the next one's range: softmax of their deviation over channels.
  Eigen::ArrayXd deviations(const MatrixView& rows, std::int64_t first) const {
    const Eigen::ArrayXXd own = rows.middleRows(first, lag_).cast<double>().array();
    const Eigen::ArrayXXd next = rows.middleRows(first + lag_, lag_).cast<double>().array();
    const Eigen::Array<double, 1, Eigen::Dynamic> low = next.colwise().minCoeff();
    const Eigen::Array<double, 1, Eigen::Dynamic> range = next.colwise().maxCoeff() - low;
    const Eigen::Array<double, 1, Eigen::Dynamic> inverse = (range == 0).select(0.0, range.inverse());
    const Eigen::ArrayXXd relative = (own.rowwise() - low).rowwise() * inverse;
    const Eigen::ArrayXd centre = relative.rowwise().mean();
    const auto n_free = static_cast<double>(std::max<Eigen::Index>(1, relative.cols() - 1));
    const Eigen::ArrayXd deviation = ((relative.colwise() - centre).square().rowwise().sum() / n_free).sqrt();
    const Eigen::ArrayXd weight = (deviation - deviation.maxCoeff()).exp();
    return weight / weight.sum();
  }

  // Their places among each other as shares: of two equal ones the lower row has the higher.
  void rank(const Eigen::ArrayXd& values, std::span<double> ranks) const {
    std::vector<std::int64_t> order(ranks.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, [&](std::int64_t a, std::int64_t b) {
      return values[a] != values[b] ? values[a] < values[b] : a > b;
    });
    for (std::size_t place = 0; place < order.size(); ++place)
      ranks[order[place]] = static_cast<double>(place) / static_cast<double>(lag_);
  }

  std::int64_t sinks_, lag_;
};

std::unique_ptr<Policy> make_lagkv(const PolicySpec& spec) {
  constexpr std::uint64_t kMost = 1 << 16;
  return std::make_unique<LagKv>(static_cast<std::int64_t>(read_whole_number(spec, "sinks", 0, kMost)),
                                 static_cast<std::int64_t>(read_whole_number(spec, "lag", 1, kMost)));
}

}  // namespace

PolicyDefinition lagkv_definition() {
  return {"lagkv",
          "rows that stand out against the partition after theirs stay (LagKV)",
          {{"sinks", "0…65536", "4"}, {"lag", "1…65536", "128"}},
          make_lagkv};
}

}  // namespace keyscope::analysis
