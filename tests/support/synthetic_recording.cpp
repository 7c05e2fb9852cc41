#include "tests/support/synthetic_recording.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/errors.hpp"

namespace keyscope::session {
namespace {

using recording::RecordingInfo;
using recording::RunInfo;

constexpr const char* kPolicies[] = {"none", "keydiff", "sink", "tova", "random"};
constexpr const char* kWords[] = {" the", " key", " of",    " a",  " river",
                                  ",",    " and", " light", ".\n", " seven"};

// A hash as uniform noise in [-1, 1): the same number for the same place, on every machine.
float noise(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  std::uint64_t x =
      a * 0x9E3779B97F4A7C15ULL ^ (b + 1) * 0xBF58476D1CE4E5B9ULL ^ (c + 7) * 0x94D049BB133111EBULL;
  x ^= x >> 30U;
  x *= 0xBF58476D1CE4E5B9ULL;
  x ^= x >> 27U;
  x *= 0x94D049BB133111EBULL;
  x ^= x >> 31U;
  return static_cast<float>(static_cast<double>(x >> 11U) / 4503599627370496.0 - 1.0);
}

// Nearly normal: the sum of three.
float bell(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return noise(a, b, c) + noise(a, b, c + 1000) + noise(a, b, c + 2000);
}

// Of a KV head, among those of all layers.
std::uint64_t head_number(std::int64_t layer, std::int64_t kv_head) {
  return static_cast<std::uint64_t>(64 * layer + kv_head);
}

RowMatrixF cloud(std::uint64_t head, std::int64_t first, std::int64_t count, int head_dim, bool queries) {
  RowMatrixF rows(count, head_dim);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto token = static_cast<std::uint64_t>(first + i);
    const bool outlier = token < 4 || token % 29 == 0;
    const double turn = 0.02 * static_cast<double>(token % 314);
    for (int d = 0; d < head_dim; ++d) {
      const int pair = d / 2;
      const float spread = pair == 0 ? 1.0F : 0.25F;
      const float wave = d % 2 == 0 ? static_cast<float>(std::cos(turn)) : static_cast<float>(std::sin(turn));
      float value = spread * bell(head, token, static_cast<std::uint64_t>(d)) +
                    2.5F * wave / static_cast<float>(1 + pair);
      if (outlier) value += 4.0F * noise(head, token % 7, static_cast<std::uint64_t>(d));
      rows(i, d) = queries ? -0.6F * value - (d == 0 ? 6.0F : 0.0F) : value + (d == 0 ? 3.0F : 0.0F);
    }
  }
  return rows;
}

RunInfo make_run(const SyntheticSize& size, int index) {
  RunInfo run;
  run.plan.policy = run.plan.name = kPolicies[index % 5];
  run.plan.parameters = "{}";
  run.plan.budget = index == 0 ? 0 : size.budget;
  run.plan.block_size = size.block_size;
  run.plan.n_prompt_blocks = (size.n_tokens + size.block_size - 1) / size.block_size;
  run.blocks_done = run.plan.n_prompt_blocks;
  run.n_tokens = size.n_tokens;
  for (std::int64_t block = 0; block < run.blocks_done; ++block) {
    run.block_start.push_back(static_cast<std::int32_t>(block * size.block_size));
    run.block_ms.push_back(1);
  }
  return run;
}

}  // namespace

SyntheticRecording::SyntheticRecording(const SyntheticSize& size) : size_(size) {
  auto info = std::make_shared<RecordingInfo>();
  info->source = "synthetic";
  info->complete = true;
  info->model = {"{}",         "synthetic", size.n_layers, size.n_kv_heads * size.group_size, size.n_kv_heads,
                 size.head_dim};
  info->prompt.offset.push_back(0);
  for (std::int64_t i = 0; i < size.n_tokens; ++i) {
    info->prompt.id.push_back(static_cast<std::int32_t>(i % 10));
    info->prompt.text += kWords[i % 10];
    info->prompt.offset.push_back(static_cast<std::int64_t>(info->prompt.text.size()));
  }
  for (int layer = 0; layer < size.n_layers; ++layer) info->layers.push_back(layer);
  info->heads.kv_heads = size.heads;
  info->keys = info->queries = true;
  for (int run = 0; run < size.n_runs; ++run) info->runs.push_back(make_run(size, run));
  info_ = std::move(info);
}

std::shared_ptr<const RecordingInfo> SyntheticRecording::info() const { return info_; }

RowMatrixF SyntheticRecording::keys(int, int layer, int kv_head, std::int64_t first,
                                    std::int64_t count) const {
  ++key_reads_;
  if (broken_) throw FileError("synthetic: layer_00/keys: the bytes are damaged");
  return cloud(head_number(layer, kv_head), first, count < 0 ? size_.n_tokens - first : count, size_.head_dim,
               false);
}

RowMatrixF SyntheticRecording::queries(int, int layer, int query_head, std::int64_t first,
                                       std::int64_t count) const {
  if (queries_broken_) throw FileError("synthetic: layer_00/queries: the bytes are damaged");
  return cloud(head_number(layer, query_head / size_.group_size), first,
               count < 0 ? size_.n_tokens - first : count, size_.head_dim, true);
}

RowMatrixF SyntheticRecording::values(int, int, int, std::int64_t, std::int64_t) const {
  throw FileError("synthetic: values were not recorded");
}

recording::HeadTrace SyntheticRecording::trace(int run, int layer, int kv_head) const {
  recording::HeadTrace trace;
  const auto n = static_cast<std::size_t>(size_.n_tokens);
  trace.evicted_at.assign(n, -1);
  trace.evicted_margin.assign(n, std::numeric_limits<float>::quiet_NaN());
  trace.attention_last.assign(n, 0);
  const std::int64_t n_blocks = info_->runs[run].blocks_done;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t place = head_number(layer, kv_head);
    trace.attention_received.push_back(0.5 * (1 + noise(place, i, 5)) / static_cast<double>(1 + i % 17));
    trace.attention_queries.push_back(static_cast<std::int32_t>(n - i));
    if (info_->runs[run].plan.budget == 0 || noise(place + static_cast<std::uint64_t>(run), i, 9) < -0.7F)
      continue;
    const std::int64_t gone = static_cast<std::int64_t>(i) / size_.block_size +
                              size_.budget / size_.block_size +
                              static_cast<std::int64_t>(2 * std::abs(noise(place, i, 11)));
    if (gone >= n_blocks) continue;
    trace.evicted_at[i] = static_cast<std::int32_t>(gone);
    trace.evicted_margin[i] = 0.1F + 0.1F * noise(place, i, 13);
  }
  return trace;
}

RowMatrixF SyntheticRecording::attention(int, int, int, std::int64_t, std::int64_t) const {
  throw FileError("synthetic: attention was not recorded");
}

RowMatrixF SyntheticRecording::logits(int) const { return {}; }

}  // namespace keyscope::session
