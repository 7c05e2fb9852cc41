#include "tests/support/drawn_recording.hpp"

#include <limits>
#include <numeric>

#include "base/errors.hpp"
#include "tests/support/sample_rows.hpp"

namespace keyscope::measures {
namespace {

constexpr std::int64_t kPrompt = 40;
constexpr std::int64_t kTokens = 43;
constexpr std::int64_t kBlock = 8;
constexpr std::int64_t kBlocks = 8;
constexpr int kHeadDim = 8;
constexpr int kGroup = 2;

std::int32_t evicted_at(std::size_t run, std::int64_t token) {
  if (run == 0) return -1;
  const std::int64_t at = token % 3 == 1 ? token / kBlock + 1 : token < kPrompt && token % 5 == 2 ? 6 : -1;
  return at < kBlocks ? static_cast<std::int32_t>(at) : -1;
}

DrawnRecording::Head make_head(std::size_t run, std::size_t head) {
  DrawnRecording::Head made;
  made.keys = sample_rows(100 + 10 * run + head, kTokens, kHeadDim, 0.3);
  made.values = sample_rows(300 + 10 * run + head, kTokens, kHeadDim);
  for (std::size_t g = 0; g < kGroup; ++g)
    made.queries.push_back(sample_rows(200 + 10 * run + head * kGroup + g, kTokens, kHeadDim, -0.1));
  const auto draws = sample_uniform(400 + 10 * run + head, kTokens);
  for (std::int64_t i = 0; i < kTokens; ++i) {
    const std::int64_t n_queries = std::max<std::int64_t>(kPrompt - i, 0);
    made.trace.evicted_at.push_back(evicted_at(run, i));
    made.trace.evicted_margin.push_back(std::numeric_limits<float>::quiet_NaN());
    made.trace.attention_queries.push_back(static_cast<std::int32_t>(n_queries));
    made.trace.attention_received.push_back(draws[i] * static_cast<double>(n_queries));
    made.trace.attention_last.push_back(0);
  }
  return made;
}

recording::RunInfo make_run(const std::string& policy) {
  recording::RunInfo run;
  run.plan = {.name = policy,
              .policy = policy,
              .parameters = "{}",
              .budget = policy == "none" ? 0 : 16,
              .block_size = kBlock,
              .n_prompt_blocks = 5,
              .max_generated = 4,
              .replayed = false};
  run.block_start = {0, 8, 16, 24, 32, 40, 41, 42};
  run.block_ms.assign(kBlocks, 1);
  run.blocks_done = kBlocks;
  run.n_tokens = kTokens;
  run.n_scored = 4;
  return run;
}

void require_layer(int layer) {
  if (layer != 3) throw FileError("fake recording: only layer 3 was recorded");
}

RowMatrixF part(const RowMatrixF& rows, std::int64_t first, std::int64_t count) {
  return rows.middleRows(first, count < 0 ? rows.rows() - first : count);
}

}  // namespace

DrawnRecording::DrawnRecording() {
  about.source = "fake.h5";
  about.complete = true;
  about.model = {
      .config = "{}", .name = "fake", .n_layers = 4, .n_heads = 4, .n_kv_heads = 2, .head_dim = kHeadDim};
  about.prompt.id.resize(kPrompt);
  about.layers = {3};
  about.keys = about.queries = about.values = true;
  for (const char* policy : {"none", "keydiff"}) about.runs.push_back(make_run(policy));
  for (std::size_t run = 0; run < 2; ++run) {
    heads.push_back({make_head(run, 0), make_head(run, 1)});
    all_logits.push_back(sample_rows(500 + run, 4, 30) * 8);
  }
}

std::shared_ptr<const recording::RecordingInfo> DrawnRecording::info() const {
  return std::make_shared<const recording::RecordingInfo>(about);
}

RowMatrixF DrawnRecording::keys(int run, int layer, int kv_head, std::int64_t first,
                                std::int64_t count) const {
  require_layer(layer);
  return part(heads.at(run).at(kv_head).keys, first, count);
}

RowMatrixF DrawnRecording::values(int run, int layer, int kv_head, std::int64_t first,
                                  std::int64_t count) const {
  require_layer(layer);
  return part(heads.at(run).at(kv_head).values, first, count);
}

RowMatrixF DrawnRecording::queries(int run, int layer, int query_head, std::int64_t first,
                                   std::int64_t count) const {
  require_layer(layer);
  const Head& head = heads.at(run).at(query_head / kGroup);
  return part(head.queries.at(query_head % kGroup), first, count);
}

recording::HeadTrace DrawnRecording::trace(int run, int layer, int kv_head) const {
  require_layer(layer);
  return heads.at(run).at(kv_head).trace;
}

RowMatrixF DrawnRecording::attention(int, int, int, std::int64_t, std::int64_t) const {
  throw FileError("fake recording: attention was not recorded");
}

RowMatrixF DrawnRecording::logits(int run) const { return all_logits.at(run); }

}  // namespace keyscope::measures
