// What every policy keeps, against the float64 reference in goldens/block_reference.py.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/capture/inference/captured.hpp"

namespace keyscope::capture {
namespace {

using nlohmann::json;

const std::string kGoldens = KEYSCOPE_SOURCE_DIR "/tests/capture/inference/goldens/";

std::vector<json> golden_cases() {
  std::ifstream file(kGoldens + "eviction.golden.json");
  return json::parse(file).get<std::vector<json>>();
}

double number(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

std::string name_of(const json& golden) {
  std::string name = fmt::format("{}_N{}_B{}", golden["policy"].get<std::string>(),
                                 golden["budget"].get<int>(), golden["block"].get<int>());
  for (const auto& [key, value] : golden["options"].items())
    name += "_" + key + "_" + value.get<std::string>();
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

class AgainstReference : public ::testing::TestWithParam<json> {
 protected:
  test::Captured run() const {
    static const auto model = Model::load(kGoldens + "tiny_llama", {});
    const json& golden = GetParam();
    CaptureOptions options;
    options.prompt_ids = golden["prompt"].get<std::vector<std::int32_t>>();
    options.policies = {
        {golden["policy"].get<std::string>(), golden["options"].get<std::map<std::string, std::string>>()}};
    options.budget = golden["budget"];
    options.block_size = golden["block"];
    options.generate = golden["generate"];
    options.ignore_eos = true;
    return test::run_in_memory(*model, options);
  }
};

// Layer by layer: a row that goes differently in one layer changes what the next one sees. The goldens hold
// no close call, so nothing is forgiven.
TEST_P(AgainstReference, KeepsTheSameRows) {
  const json& golden = GetParam();
  const auto captured = run();
  const auto info = captured.recording->info();
  for (int layer = 0; layer < info->model.n_layers; ++layer)
    for (int head = 0; head < info->model.n_kv_heads; ++head) {
      const auto trace = captured.recording->trace(0, layer, head);
      const auto at = [&](const char* field) { return golden[field][layer][head]; };
      ASSERT_EQ(trace.evicted_at, at("evicted_at").get<std::vector<std::int32_t>>())
          << "layer " << layer << ", KV head " << head;
      // Margins are differences of scores, and as exact as those; l2norm's are rounded to five digits, and
      // one of them may round to the neighbour.
      double tolerance = golden["policy"] == "l2norm" ? 2.5e-4 : 1e-5;
      for (const json& margin : at("margin"))
        if (!margin.is_null()) tolerance = std::max(tolerance, 1e-5 * (1 + std::abs(margin.get<double>())));
      for (std::size_t i = 0; i < trace.evicted_margin.size(); ++i) {
        const double margin = number(at("margin")[i]);
        ASSERT_EQ(std::isnan(trace.evicted_margin[i]), std::isnan(margin)) << "position " << i;
        if (!std::isnan(margin)) {
          ASSERT_NEAR(trace.evicted_margin[i], margin, tolerance);
        }
      }
    }
}

TEST_P(AgainstReference, ReceivesTheSameAttention) {
  const json& golden = GetParam();
  const auto captured = run();
  const auto info = captured.recording->info();
  for (int layer = 0; layer < info->model.n_layers; ++layer)
    for (int head = 0; head < info->model.n_kv_heads; ++head) {
      const auto trace = captured.recording->trace(0, layer, head);
      const auto at = [&](const char* field) { return golden[field][layer][head]; };
      ASSERT_EQ(trace.attention_queries, at("attention_queries").get<std::vector<std::int32_t>>());
      for (std::size_t i = 0; i < trace.attention_received.size(); ++i) {
        ASSERT_NEAR(trace.attention_received[i], number(at("attention_received")[i]), 2e-5);
        ASSERT_NEAR(trace.attention_last[i], number(at("attention_last")[i]), 1e-5);
      }
    }
}

TEST_P(AgainstReference, GeneratesTheSameIds) {
  const json& golden = GetParam();
  const auto captured = run();
  EXPECT_EQ(captured.outcomes[0].generated, golden["generated"].get<std::vector<std::int32_t>>());
  const auto info = captured.recording->info();
  EXPECT_EQ(info->runs[0].top_ids, golden["top_ids"].get<std::vector<std::int32_t>>());
  const double largest = std::abs(golden["top_logits"][0].get<double>());
  for (std::size_t i = 0; i < info->runs[0].top_logits.size(); ++i)
    EXPECT_NEAR(info->runs[0].top_logits[i], golden["top_logits"][i].get<double>(), 1e-5 * largest);
}

INSTANTIATE_TEST_SUITE_P(Goldens, AgainstReference, ::testing::ValuesIn(golden_cases()),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace keyscope::capture
