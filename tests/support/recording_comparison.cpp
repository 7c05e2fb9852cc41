#include "tests/support/recording_comparison.hpp"

#include <cstring>

#include <gtest/gtest.h>

#include "capture/recording/recording.hpp"

namespace keyscope::recording {

namespace {

template <typename T>
void expect_same_values(const std::vector<T>& expected, const std::vector<T>& found,
                        const std::string& what) {
  ASSERT_EQ(expected.size(), found.size()) << what;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const bool both_nan = expected[i] != expected[i] && found[i] != found[i];
    ASSERT_TRUE(both_nan || expected[i] == found[i])
        << what << " " << i << ": " << expected[i] << " " << found[i];
  }
}

void expect_same_matrix(const RowMatrixF& expected, const RowMatrixF& found, const std::string& what) {
  ASSERT_EQ(expected.rows(), found.rows()) << what;
  if (expected.rows() == 0) return;
  ASSERT_EQ(expected.cols(), found.cols()) << what;
  ASSERT_TRUE((expected.array() == found.array()).all()) << what;
}

void expect_same_text(const TokenText& expected, const TokenText& found, const std::string& what) {
  expect_same_values(expected.id, found.id, what + " ids");
  EXPECT_EQ(expected.text, found.text) << what;
  for (std::int64_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(expected.token(i), found.token(i)) << what << i;
}

void expect_same_run(const RunInfo& expected, const RunInfo& found, Times times) {
  const std::string& name = expected.plan.name;
  EXPECT_EQ(name, found.plan.name);
  EXPECT_EQ(expected.plan.policy, found.plan.policy);
  EXPECT_EQ(expected.plan.parameters, found.plan.parameters);
  EXPECT_EQ(expected.plan.budget, found.plan.budget);
  EXPECT_EQ(expected.plan.block_size, found.plan.block_size);
  EXPECT_EQ(expected.plan.n_prompt_blocks, found.plan.n_prompt_blocks);
  EXPECT_EQ(expected.plan.max_generated, found.plan.max_generated);
  EXPECT_EQ(expected.plan.replayed, found.plan.replayed);
  EXPECT_EQ(expected.plan.oracle, found.plan.oracle);
  ASSERT_EQ(expected.blocks_done, found.blocks_done) << name;
  ASSERT_EQ(expected.n_tokens, found.n_tokens) << name;
  EXPECT_EQ(expected.n_scored, found.n_scored) << name;
  expect_same_values(expected.block_start, found.block_start, name + " block_start");
  if (times == Times::kSame) expect_same_values(expected.block_ms, found.block_ms, name + " block_ms");
  expect_same_values(expected.top_ids, found.top_ids, name + " top_ids");
  expect_same_values(expected.top_logits, found.top_logits, name + " top_logits");
  expect_same_text(expected.generated, found.generated, name + " generated");
  for (std::int64_t b = -1; b < expected.blocks_done; ++b)
    EXPECT_EQ(tokens_seen(expected, b), tokens_seen(found, b));
}

void expect_same_info(const RecordingInfo& expected, const RecordingInfo& found, Times times) {
  EXPECT_EQ(expected.provenance.command, found.provenance.command);
  EXPECT_EQ(expected.provenance.configuration, found.provenance.configuration);
  EXPECT_EQ(expected.provenance.versions, found.provenance.versions);
  EXPECT_EQ(expected.provenance.model_sha256, found.provenance.model_sha256);
  EXPECT_EQ(expected.provenance.prompt_sha256, found.provenance.prompt_sha256);
  EXPECT_EQ(expected.provenance.seed, found.provenance.seed);
  EXPECT_EQ(expected.provenance.device, found.provenance.device);
  EXPECT_EQ(expected.provenance.schedule, found.provenance.schedule);
  if (times == Times::kSame) {
    EXPECT_EQ(expected.provenance.started, found.provenance.started);
  }
  EXPECT_EQ(expected.model.config, found.model.config);
  EXPECT_EQ(expected.model.name, found.model.name);
  EXPECT_EQ(expected.model.n_layers, found.model.n_layers);
  EXPECT_EQ(expected.model.n_heads, found.model.n_heads);
  EXPECT_EQ(expected.model.n_kv_heads, found.model.n_kv_heads);
  EXPECT_EQ(expected.model.head_dim, found.model.head_dim);
  expect_same_text(expected.prompt, found.prompt, "prompt");
  EXPECT_EQ(expected.layers, found.layers);
  EXPECT_EQ(expected.keyless_layers, found.keyless_layers);
  EXPECT_EQ(expected.expert_layers, found.expert_layers);
  EXPECT_EQ(expected.n_experts, found.n_experts);
  EXPECT_EQ(expected.experts_per_token, found.experts_per_token);
  EXPECT_EQ(expected.sinks, found.sinks);
  EXPECT_EQ(expected.heads, found.heads);
  EXPECT_EQ(expected.keys, found.keys);
  EXPECT_EQ(expected.queries, found.queries);
  EXPECT_EQ(expected.values, found.values);
  EXPECT_EQ(expected.value_norms, found.value_norms);
  EXPECT_EQ(expected.window_sums, found.window_sums);
  EXPECT_EQ(expected.attention, found.attention);
  ASSERT_EQ(expected.runs.size(), found.runs.size());
  for (std::size_t i = 0; i < expected.runs.size(); ++i)
    expect_same_run(expected.runs[i], found.runs[i], times);
}

void expect_same_trace(const HeadTrace& expected, const HeadTrace& found, const std::string& what) {
  expect_same_values(expected.evicted_at, found.evicted_at, what + " evicted_at");
  expect_same_values(expected.evicted_margin, found.evicted_margin, what + " evicted_margin");
  expect_same_values(expected.attention_received, found.attention_received, what + " attention_received");
  expect_same_values(expected.attention_queries, found.attention_queries, what + " attention_queries");
  expect_same_values(expected.attention_last, found.attention_last, what + " attention_last");
  expect_same_values(expected.value_norms, found.value_norms, what + " value_norms");
}

void expect_same_layer(const Recording& expected, const Recording& found, const RecordingInfo& info, int run,
                       int layer) {
  const std::int64_t n_tokens = info.runs[run].n_tokens;
  const std::string what = info.runs[run].plan.name + " layer " + std::to_string(layer);
  const RowMatrixD sinks = expected.statistics(run, layer).sink,
                   found_sinks = found.statistics(run, layer).sink;
  expect_same_values(std::vector<double>(sinks.data(), sinks.data() + sinks.size()),
                     std::vector<double>(found_sinks.data(), found_sinks.data() + found_sinks.size()),
                     what + " attention_sink");
  expect_same_values(expected.sink_logits(run, layer), found.sink_logits(run, layer), what + " sink_logit");
  for (int h = 0; h < info.model.heads(layer).n_kv_heads; ++h) {
    expect_same_trace(expected.trace(run, layer, h), found.trace(run, layer, h), what);
    if (!info.heads.has(h)) continue;
    expect_same_matrix(expected.keys(run, layer, h), found.keys(run, layer, h), what + " keys");
    if (info.values)
      expect_same_matrix(expected.values(run, layer, h), found.values(run, layer, h), what + " values");
  }
  for (int h = 0; h < info.model.n_heads; ++h) {
    if (!info.heads.has(h / info.model.group_size(layer))) continue;
    expect_same_matrix(expected.queries(run, layer, h), found.queries(run, layer, h), what + " queries");
    expect_same_matrix(expected.queries(run, layer, h, n_tokens / 3, n_tokens / 2),
                       found.queries(run, layer, h, n_tokens / 3, n_tokens / 2), what + " some queries");
    if (!info.attention) continue;
    expect_same_matrix(expected.attention(run, layer, h), found.attention(run, layer, h),
                       what + " attention");
    expect_same_matrix(expected.attention(run, layer, h, n_tokens / 2, n_tokens / 4),
                       found.attention(run, layer, h, n_tokens / 2, n_tokens / 4), what + " some attention");
  }
}

void expect_same_routing(const LayerRouting& expected, const LayerRouting& found, const std::string& what) {
  ASSERT_EQ(expected.experts.rows(), found.experts.rows()) << what;
  ASSERT_EQ(expected.experts.cols(), found.experts.cols()) << what;
  EXPECT_TRUE((expected.experts.array() == found.experts.array()).all()) << what;
  expect_same_matrix(expected.weights, found.weights, what + " weights");
  expect_same_values(expected.entropy, found.entropy, what + " entropy");
}

}  // namespace

void expect_same(const Recording& expected, const Recording& found, Times times) {
  const auto info = expected.info();
  expect_same_info(*info, *found.info(), times);
  if (::testing::Test::HasFatalFailure()) return;
  for (int run = 0; run < static_cast<int>(info->runs.size()); ++run) {
    expect_same_matrix(expected.logits(run), found.logits(run), "logits");
    for (const int layer : info->expert_layers)
      expect_same_routing(expected.routing(run, layer), found.routing(run, layer),
                          "routing of layer " + std::to_string(layer));
    for (const int layer : info->layers) {
      expect_same_layer(expected, found, *info, run, layer);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

void expect_holds_counted_blocks(const Recording& recording, const SyntheticCapture& capture) {
  const auto info = recording.info();
  auto memory = MemoryRecording::create();
  RecordSink& sink = *memory;
  sink.begin(capture.plan());
  for (int run = 0; run < static_cast<int>(info->runs.size()); ++run) {
    const RunInfo& about = info->runs[run];
    for (int b = 0; b < about.blocks_done; ++b) {
      for (const int layer : capture.plan()->expert_layers) sink.routing(capture.routing(run, b, layer));
      sink.block(capture.block(run, b));
    }
    if (!about.top_ids.empty()) sink.prompt_done(capture.prompt_result(run));
  }
  expect_same(*memory, recording);
}

}  // namespace keyscope::recording
