// What every policy keeps, against the float64 reference in goldens/block_reference.py, in models of every
// kind of attention.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "tests/capture/inference/arithmetics.hpp"
#include "tests/support/captured.hpp"

namespace keyscope::capture {
namespace {

using nlohmann::json;

std::vector<json> golden_cases() {
  return parse_json(read_file(test::inference_golden("eviction.golden.json"))).get<std::vector<json>>();
}

double number(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

std::string name_of(const json& golden) {
  std::string name =
      fmt::format("{}{}_N{}_B{}", golden.value("model", ""), golden["policy"].get<std::string>(),
                  golden["budget"].get<int>(), golden["block"].get<int>());
  for (const auto& [key, value] : golden["options"].items())
    name += "_" + key + "_" + value.get<std::string>();
  if (golden.contains("oracle")) name += "_oracle";
  if (golden.contains("positions")) name += "_places";
  if (golden.contains("cache"))
    name += "_" + golden["cache"][0].get<std::string>() + "_" + golden["cache"][1].get<std::string>();
  if (golden.contains("budgets")) name += "_budgets";
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

// Among the goldens, or among the assets.
std::filesystem::path model_folder(const std::string& name) {
  return name.starts_with("demo_model") ? std::filesystem::path(KEYSCOPE_DEMO_MODEL).parent_path() / name
                                        : test::inference_golden(name);
}

class AgainstReference : public ::testing::TestWithParam<std::tuple<json, Schedule, Arithmetic>> {
 protected:
  void SetUp() override {
    const json options = golden_case()["options"];
    const bool all_layers =
        options.value("granularity", "") == "model" || options.value("split", "") == "cake";
    if (all_layers && std::get<1>(GetParam()) == Schedule::kLayer)
      GTEST_SKIP() << "all layers decide together after every block";
  }

  static json golden_case() { return std::get<0>(GetParam()); }

  static test::Captured run() {
    const json golden = golden_case();
    static std::map<std::pair<std::string, Arithmetic>, std::shared_ptr<const Model>> models;
    const std::string name = golden.value("model", "tiny_llama");
    const Arithmetic arithmetic = std::get<2>(GetParam());
    auto& model = models[{name, arithmetic}];
    if (model == nullptr)
      model = Model::load(model_folder(name), test::model_options(arithmetic, DType::kFloat32));
    CaptureOptions options;
    options.prompt_ids = golden["prompt"].get<std::vector<std::int32_t>>();
    options.policies = {
        {golden["policy"].get<std::string>(), golden["options"].get<std::map<std::string, std::string>>()}};
    constexpr std::string_view kSplitFile = "file:";
    for (auto& [key, value] : options.policies.front().options)
      if (key == "file")
        value = test::inference_golden(value);
      else if (key == "split" && value.starts_with(kSplitFile))
        value = kSplitFile.data() + test::inference_golden(value.substr(kSplitFile.size())).string();
    options.budget = golden["budget"].get<std::int64_t>();
    options.block_size = golden["block"];
    options.generate = golden["generate"];
    options.ignore_eos = true;
    options.schedule = std::get<1>(GetParam());
    options.oracle = golden.contains("oracle");
    options.cache_positions = golden.contains("positions");
    if (golden.contains("cache"))
      options.cache_formats = {analysis::cache_format(golden["cache"][0].get<std::string>(),
                                                      golden["cache"][1].get<std::string>())};
    if (golden.contains("budgets"))
      for (const json& layer : golden["budgets"])
        for (const json& head : layer) options.budgets.push_back(head);
    for (int layer = 0; layer < model->config().n_layers; ++layer)
      if (model->config().attends(layer)) options.layers.push_back(layer);
    return test::run_in_memory(*model, options);
  }
};

// Layer by layer: a row that goes differently in one layer changes what the next one sees. The goldens hold
// no close call, so nothing is forgiven.
TEST_P(AgainstReference, KeepsTheSameRows) {
  const json golden = golden_case();
  const auto captured = run();
  const auto info = captured.recording->info();
  for (const int layer : info->layers)
    for (int head = 0; head < info->model.heads(layer).n_kv_heads; ++head) {
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

// Sums of weights are as exact as they are large.
TEST_P(AgainstReference, ReceivesTheSameAttention) {
  const json golden = golden_case();
  const auto captured = run();
  const auto info = captured.recording->info();
  for (const int layer : info->layers)
    for (int head = 0; head < info->model.heads(layer).n_kv_heads; ++head) {
      const auto trace = captured.recording->trace(0, layer, head);
      const auto at = [&](const char* field) { return golden[field][layer][head]; };
      ASSERT_EQ(trace.attention_queries, at("attention_queries").get<std::vector<std::int32_t>>());
      for (std::size_t i = 0; i < trace.attention_received.size(); ++i) {
        const double received = number(at("attention_received")[i]);
        ASSERT_NEAR(trace.attention_received[i], received, 2e-5 * std::max(1.0, received));
        ASSERT_NEAR(trace.attention_last[i], number(at("attention_last")[i]), 1e-5);
      }
    }
}

TEST_P(AgainstReference, GeneratesTheSameIds) {
  const json golden = golden_case();
  const auto captured = run();
  EXPECT_EQ(captured.outcomes[0].generated, golden["generated"].get<std::vector<std::int32_t>>());
  const auto info = captured.recording->info();
  EXPECT_EQ(info->runs[0].top_ids, golden["top_ids"].get<std::vector<std::int32_t>>());
  const double largest = std::abs(golden["top_logits"][0].get<double>());
  for (std::size_t i = 0; i < info->runs[0].top_logits.size(); ++i)
    EXPECT_NEAR(info->runs[0].top_logits[i], golden["top_logits"][i].get<double>(), 1e-5 * largest);
}

TEST_P(AgainstReference, TakesTheSameStatistics) {
  const json golden = golden_case();
  const auto captured = run();
  const auto info = captured.recording->info();
  for (const int layer : info->layers) {
    const recording::AttentionStatistics found = captured.recording->statistics(0, layer);
    const auto expect_rows = [&](const RowMatrixF& rows, const char* field, double tolerance) {
      for (Eigen::Index head = 0; head < rows.rows(); ++head)
        for (Eigen::Index i = 0; i < rows.cols(); ++i)
          ASSERT_NEAR(rows(head, i), number(golden[field][layer][head][i]),
                      tolerance * std::max(1.0, number(golden[field][layer][head][i])))
              << field << ", head " << head;
    };
    expect_rows(found.entropy, "attention_entropy", 2e-5);
    expect_rows(found.window, "attention_window", 2e-5);
    for (std::size_t head = 0; head < found.gini.size(); ++head) {
      EXPECT_NEAR(found.gini[head], number(golden["attention_gini"][layer][head]), 1e-5);
      EXPECT_NEAR(found.top_share[head], number(golden["attention_top_share"][layer][head]), 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, AgainstReference,
                         ::testing::Combine(::testing::ValuesIn(golden_cases()),
                                            ::testing::Values(Schedule::kBlock, Schedule::kLayer),
                                            test::both_arithmetics()),
                         [](const auto& test) {
                           return name_of(std::get<0>(test.param)) +
                                  (std::get<1>(test.param) == Schedule::kLayer ? "_by_layers_"
                                                                               : "_by_blocks_") +
                                  test::name_of(std::get<2>(test.param));
                         });

}  // namespace
}  // namespace keyscope::capture
