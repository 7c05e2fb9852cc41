// Measures of captures of small models, against the weights that attention itself used.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "app/measures/head_measures.hpp"
#include "tests/support/captured.hpp"

namespace keyscope::measures {
namespace {

constexpr int kFullRun = 0, kPolicyRun = 1;
constexpr std::int64_t kPromptTokens = 60, kScored = 12;

class CapturedMeasures : public ::testing::TestWithParam<std::string> {
 protected:
  static std::shared_ptr<recording::Recording> capture() {
    const auto model =
        capture::Model::load(test::inference_golden(GetParam()), {.dtype = capture::DType::kFloat32});
    capture::CaptureOptions options;
    options.prompt_ids = test::random_ids(kPromptTokens, model->config().vocab_size);
    options.policies = test::policies({"none", "keydiff"});
    options.budget = 5;
    options.block_size = 4;
    options.record_values = options.record_attention = options.record_logits = true;
    options.score_last = kScored;
    return test::run_in_memory(*model, options).recording;
  }
};

// Output of a query by its recorded weights, of the rows in `kept` alone, beside what a sink took.
Eigen::RowVectorXd output(const RowMatrixF& weights, std::int64_t query, const RowMatrixF& values,
                          const std::vector<bool>& kept, double sink = 0) {
  Eigen::RowVectorXd sum = Eigen::RowVectorXd::Zero(values.cols());
  double total = sink;
  for (Eigen::Index key = 0; key < values.rows(); ++key) {
    if (!kept[key]) continue;
    total += weights(query, key);
    sum += weights(query, key) * values.row(key).cast<double>();
  }
  return total > 0 ? Eigen::RowVectorXd(sum / total) : sum;
}

// What a query gave to no row. Rounding leaves something where there is no sink: then it is nothing.
double sink_of(const recording::RecordingInfo& info, const RowMatrixF& weights, std::int64_t query) {
  return info.sinks ? 1 - weights.row(query).cast<double>().sum() : 0;
}

// Everything but what the policy itself evicted: rows whose `none` run lost them too went past the window.
std::vector<bool> not_evicted(const recording::Recording& recording, int run, int layer, int kv_head) {
  const auto mine = recording.trace(run, layer, kv_head).evicted_at;
  const auto window_alone = recording.trace(kFullRun, layer, kv_head).evicted_at;
  std::vector<bool> kept;
  for (std::size_t i = 0; i < mine.size(); ++i) kept.push_back(mine[i] < 0 || mine[i] == window_alone[i]);
  return kept;
}

TEST_P(CapturedMeasures, OutputErrorIsThatOfTheRecordedWeights) {
  const auto recording = capture();
  const auto info = recording->info();
  const auto& model = info->model;
  for (const auto& [layer, kv_head] : info->all_heads()) {
    const auto kept = not_evicted(*recording, kPolicyRun, layer, kv_head);
    const RowMatrixF values = recording->values(kFullRun, layer, kv_head);
    double squared_error = 0, squared_norm = 0, squared_error_without = 0, squared_norm_without = 0;
    for (int g = 0; g < model.group_size(layer); ++g) {
      const RowMatrixF weights = recording->attention(kFullRun, layer, kv_head * model.group_size(layer) + g);
      for (std::int64_t query = kPromptTokens - kScored; query < kPromptTokens; ++query) {
        const std::vector<bool> all(kPromptTokens, true);
        const double sink = sink_of(*info, weights, query);
        const auto full = output(weights, query, values, all, sink);
        squared_error += (output(weights, query, values, kept, sink) - full).squaredNorm();
        squared_norm += full.squaredNorm();
        const auto without = output(weights, query, values, all);
        squared_error_without += (output(weights, query, values, kept) - without).squaredNorm();
        squared_norm_without += without.squaredNorm();
      }
    }
    const HeadMeasures measures = measure_head(*recording, kPolicyRun, layer, kv_head);
    const auto found = measures.output_error;
    ASSERT_TRUE(found) << layer;
    EXPECT_EQ(measures.output_error_without_sinks.has_value(), info->sinks);
    EXPECT_NEAR(measures.output_error_without_sinks.value_or(*found),
                std::sqrt(squared_error_without / squared_norm_without), 1e-5);
    EXPECT_GT(*found, 0.01);
    EXPECT_NEAR(*found, std::sqrt(squared_error / squared_norm), 1e-5) << layer << ", " << kv_head;
    EXPECT_EQ(measure_head(*recording, kFullRun, layer, kv_head).output_error, 0)
        << "what a window has passed, no policy took";
  }
}

// Gini coefficient as the mean absolute difference of all pairs over twice the mean.
double slow_gini(const Eigen::RowVectorXd& amounts) {
  double differences = 0;
  for (const double a : amounts)
    for (const double b : amounts) differences += std::abs(a - b);
  return differences / (2 * static_cast<double>(amounts.size()) * amounts.sum());
}

TEST_P(CapturedMeasures, ConcentrationIsThatOfTheRecordedWeights) {
  const auto recording = capture();
  const auto info = recording->info();
  const auto& model = info->model;
  for (const auto& [layer, kv_head] : info->all_heads()) {
    const double group = model.group_size(layer);
    double entropy = 0, gini = 0, top_share = 0, sink = 0, learned = 0;
    for (int g = 0; g < model.group_size(layer); ++g) {
      const RowMatrixD weights =
          recording->attention(kPolicyRun, layer, kv_head * model.group_size(layer) + g).cast<double>();
      for (const double weight : weights.reshaped())
        if (weight > 0) entropy -= weight * std::log(weight) / (kPromptTokens * group);
      for (std::int64_t query = 0; query < kPromptTokens && info->sinks; ++query) {
        const double taken = 1 - weights.row(query).sum();
        entropy -= taken * std::log(taken) / (kPromptTokens * group);
        learned += taken / (kPromptTokens * group);
      }
      const Eigen::RowVectorXd received = weights.colwise().sum();
      gini += slow_gini(received) / group;
      top_share += received.maxCoeff() / received.sum() / group;  // 1 % of 60 positions: one
      sink += received[0] / kPromptTokens / group;
    }
    const auto found = measure_head(*recording, kPolicyRun, layer, kv_head);
    EXPECT_NEAR(found.attention_entropy_nats.value(), entropy, 1e-5);
    EXPECT_NEAR(found.attention_gini.value(), gini, 1e-5);
    EXPECT_NEAR(found.attention_top_share.value(), top_share, 1e-5);
    EXPECT_NEAR(found.sink_metric.value(), sink, 1e-5);
    EXPECT_EQ(found.learned_sink_share.has_value(), info->sinks);
    EXPECT_NEAR(found.learned_sink_share.value_or(0), learned, 1e-5);
  }
}

// With what learned sinks took, every query gave away 1.
TEST_P(CapturedMeasures, RowsAddUpToOneWithTheSinks) {
  const auto recording = capture();
  const auto info = recording->info();
  for (int run : {kFullRun, kPolicyRun})
    for (const auto& [layer, kv_head] : info->all_heads()) {
      const int group = info->model.group_size(layer);
      double sum = 0;
      for (const double received : recording->trace(run, layer, kv_head).attention_received) sum += received;
      const RowMatrixD sinks = recording->statistics(run, layer).sink;
      ASSERT_EQ(sinks.rows() > 0, info->sinks);
      if (info->sinks) sum += sinks.middleRows(Eigen::Index{kv_head} * group, group).sum() / group;
      EXPECT_NEAR(sum, kPromptTokens, 1e-4);
    }
}

// Attention without sinks is that of the recorded weights, every row divided by its sum.
TEST_P(CapturedMeasures, WithoutSinksRowsAreDividedByTheirSums) {
  const auto recording = capture();
  const auto info = recording->info();
  for (const auto& [layer, kv_head] : info->all_heads()) {
    const int group = info->model.group_size(layer);
    const HeadMeasures found = measure_head(*recording, kPolicyRun, layer, kv_head);
    Eigen::RowVectorXd received = Eigen::RowVectorXd::Zero(kPromptTokens);
    for (int g = 0; g < group; ++g) {
      RowMatrixD weights = recording->attention(kFullRun, layer, kv_head * group + g).cast<double>();
      weights.array().colwise() /= weights.rowwise().sum().array();
      received += weights.colwise().sum() / group;
    }
    double kept = 0;
    for (const std::int32_t position : found.retained) kept += received[position];
    EXPECT_EQ(found.attention_mass_kept_without_sinks.has_value(), info->sinks);
    EXPECT_NEAR(found.attention_mass_kept_without_sinks.value_or(*found.attention_mass_kept),
                kept / received.sum(), 1e-5);
    const HeadMeasures full = measure_head(*recording, kFullRun, layer, kv_head);
    EXPECT_EQ(full.spearman_without_sinks.has_value(), info->sinks);
    EXPECT_FALSE(found.spearman_without_sinks) << "of a run that evicts it would be biased";
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CapturedMeasures,
                         ::testing::Values("tiny_llama", "tiny_gemma2", "tiny_gemma3", "tiny_mistral_window",
                                           "tiny_qwen3_window", "tiny_gpt_oss", "tiny_qwen3_next",
                                           "tiny_gemma4", "tiny_gemma4_moe"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace keyscope::measures
