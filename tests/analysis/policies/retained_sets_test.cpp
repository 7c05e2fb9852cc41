// Retained sets against an independent simulation in NumPy: goldens/retained_sets.py.

#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/analysis/policies/block_simulation.hpp"
#include "tests/support/goldens.hpp"
#include "tests/support/sample_rows.hpp"

namespace keyscope::analysis {
namespace {

std::vector<SimulatedHead> golden_heads(const nlohmann::json& shape) {
  const auto group = shape["group"].get<std::uint64_t>();
  const auto n_tokens = shape["tokens"].get<Eigen::Index>();
  const auto head_dim = shape["head_dim"].get<Eigen::Index>();
  std::vector<SimulatedHead> heads;
  for (std::uint64_t h = 0; h < shape["kv_heads"].get<std::uint64_t>(); ++h) {
    SimulatedHead head{sample_rows(81 + h, n_tokens, head_dim, 0.3), {}};
    for (std::uint64_t g = 0; g < group; ++g)
      head.queries.push_back(sample_rows(91 + h * group + g, n_tokens, head_dim) * 4);
    heads.push_back(std::move(head));
  }
  return heads;
}

void expect_margins(const std::vector<float>& found, const nlohmann::json& expected,
                    const std::string& what) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(std::isnan(found[i]), expected[i].is_null()) << what << ", token " << i;
    if (!expected[i].is_null()) {
      const double margin = expected[i].get<double>();
      EXPECT_NEAR(static_cast<double>(found[i]), margin, 1e-6 * std::max(1.0, std::abs(margin))) << what;
    }
  }
}

TEST(RetainedSets, EqualTheNumPySimulation) {
  const auto goldens = read_goldens("retained_sets.json");
  const auto heads = golden_heads(goldens["shape"]);
  ASSERT_FALSE(goldens["cases"].empty());
  for (const auto& golden : goldens["cases"]) {
    const auto policy = golden["policy"].get<std::string>();
    const auto budget = golden["budget"].get<std::int64_t>();
    const auto block = golden["block"].get<std::int32_t>();
    const std::string what = policy + ", N = " + std::to_string(budget) + ", B = " + std::to_string(block);
    const auto traces = simulate_blocks(policy, heads, budget, block);
    for (std::size_t h = 0; h < heads.size(); ++h) {
      EXPECT_EQ(traces[h].evicted_at, golden["evicted_at"][h].get<std::vector<std::int32_t>>()) << what;
      if (golden.contains("margin")) expect_margins(traces[h].margin, golden["margin"][h], what);
    }
  }
}

}  // namespace
}  // namespace keyscope::analysis
