#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/row_selection.hpp"
#include "analysis/policies/score_parts.hpp"
#include "base/errors.hpp"

namespace keyscope::analysis {
namespace {

class SnapKv : public Policy {
 public:
  SnapKv(int window, std::int64_t kernel, std::int64_t recent)
      : window_(window), kernel_(kernel), recent_(recent) {}

  PolicyNeeds needs() const override {
    PolicyNeeds needs;
    needs.window = window_;
    return needs;
  }

  void score(const PolicyInput& input, std::span<double> scores) const override {
    const auto sums = input.window_sums;
    if (sums.size() != scores.size())
      throw InvalidInput(
          fmt::format("policy snapkv: {} rows, but {} window sums", scores.size(), sums.size()));
    // Summed anew for every row: a running sum would leave rounding behind, and equal rows would not tie.
    const auto n_rows = static_cast<std::int64_t>(sums.size());
    const std::int64_t reach = kernel_ / 2;
    for (std::int64_t i = 0; i < n_rows; ++i) {
      double pooled = 0;
      for (std::int64_t j = std::max<std::int64_t>(0, i - reach); j <= std::min(n_rows - 1, i + reach); ++j)
        pooled += static_cast<double>(sums[j]);
      scores[i] = pooled / static_cast<double>(kernel_);
    }
  }

  void force(const PolicyInput& /*input*/, std::int64_t budget,
             std::span<std::uint8_t> forced) const override {
    force_recent(recent_, budget, forced);
  }

 private:
  int window_;
  std::int64_t kernel_, recent_;
};

std::unique_ptr<Policy> make_snapkv(const PolicySpec& spec) {
  constexpr std::uint64_t kMost = 1 << 16;
  const auto window = read_whole_number(spec, "window", 1, kMost);
  const auto recent = read_whole_number(spec, "recent", 0, std::numeric_limits<std::int32_t>::max());
  return std::make_unique<SnapKv>(static_cast<int>(window), read_kernel(spec),
                                  static_cast<std::int64_t>(recent));
}

}  // namespace

PolicyDefinition snapkv_definition() {
  return {"snapkv",
          "what the last queries attend to stays, with its neighbours (SnapKV)",
          {{"window", "1…65536", "32"}, {"kernel", "1…65536, odd", "7"}, {"recent", "0…", "32"}},
          make_snapkv};
}

}  // namespace keyscope::analysis
