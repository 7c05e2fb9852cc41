#include "tests/support/fake_recording.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/format.h>

namespace keyscope::figures {
namespace {

RowMatrixF rows_of(const RowMatrixF& all, std::int64_t first, std::int64_t count) {
  return all.middleRows(first, count < 0 ? all.rows() - first : count);
}

RowMatrixF cloud(std::mt19937& random, std::int64_t n, int d, float centre, float spread) {
  std::normal_distribution<float> normal;
  RowMatrixF rows(n, d);
  for (std::int64_t i = 0; i < n; ++i)
    for (int c = 0; c < d; ++c) {
      const float slow = 2 * std::sin(static_cast<float>(i) * 0.02F * static_cast<float>(1 + c % 3));
      rows(i, c) =
          (c == 0 ? centre : 0) + (c < 3 ? slow : 0) + spread / static_cast<float>(1 + c) * normal(random);
    }
  return rows;
}

}  // namespace

FakeRecording::FakeRecording(int n_layers, int n_heads, int n_kv_heads, int head_dim, std::int64_t n_tokens,
                             std::int64_t block_size)
    : info_(std::make_shared<recording::RecordingInfo>()), n_tokens_(n_tokens), block_size_(block_size) {
  info_->source = "fake.h5";
  info_->complete = true;
  info_->keys = info_->queries = true;
  info_->model = {"{}", "fake model", n_layers, n_heads, n_kv_heads, head_dim};
  info_->provenance.command = "keyscope capture";
  info_->prompt.offset.push_back(0);
  for (int layer = 0; layer < n_layers; ++layer) info_->layers.push_back(layer);
  for (std::int64_t i = 0; i < n_tokens; ++i) {
    info_->prompt.id.push_back(static_cast<std::int32_t>(i));
    info_->prompt.text += static_cast<char>('a' + i % 26);
    info_->prompt.offset.push_back(i + 1);
  }
}

int FakeRecording::add_run(const std::string& policy, std::int64_t budget) {
  const int run = static_cast<int>(info_->runs.size());
  recording::RunInfo info;
  const std::int64_t n_blocks = (n_tokens_ + block_size_ - 1) / block_size_;
  info.plan = {policy, policy, "{}", budget, block_size_, n_blocks, 0, false};
  for (std::int64_t start = 0; start < n_tokens_; start += block_size_)
    info.block_start.push_back(static_cast<std::int32_t>(start));
  info.block_ms.assign(n_blocks, 1.0F);
  info.blocks_done = n_blocks;
  info.n_tokens = n_tokens_;
  info_->runs.push_back(info);
  const recording::ModelInfo& model = info_->model;
  for (int layer = 0; layer < model.n_layers; ++layer) {
    for (int head = 0; head < model.n_kv_heads; ++head) {
      keys_[{run, layer, head}] = RowMatrixF::Zero(n_tokens_, model.head_dim);
      evicted_at_[{run, layer, head}].assign(n_tokens_, -1);
    }
    for (int head = 0; head < model.n_heads; ++head)
      queries_[{run, layer, head}] = RowMatrixF::Zero(n_tokens_, model.head_dim);
  }
  return run;
}

void FakeRecording::fill(unsigned seed) {
  for (auto& [at, keys] : keys_) {
    std::mt19937 random(seed + static_cast<unsigned>(17 * at[1] + at[2]));
    keys = cloud(random, keys.rows(), static_cast<int>(keys.cols()), 4, 1.5F);
    const auto& plan = info_->runs[at[0]].plan;
    if (plan.policy == "none") continue;
    std::mt19937 choice(seed + static_cast<unsigned>(at[0]));
    std::vector<std::int32_t> present;
    for (std::int32_t token = 0; token < n_tokens_; ++token) {
      present.push_back(token);
      const bool block_ends = (token + 1) % block_size_ == 0 || token + 1 == n_tokens_;
      while (block_ends && static_cast<std::int64_t>(present.size()) > plan.budget) {
        const std::size_t victim =
            plan.policy == "sink" ? std::min<std::size_t>(4, present.size() - 1)
                                  : std::uniform_int_distribution<std::size_t>(0, present.size() - 1)(choice);
        evicted_at_[at][present[victim]] = static_cast<std::int32_t>(token / block_size_);
        present.erase(present.begin() + static_cast<long>(victim));
      }
    }
  }
  for (auto& [at, queries] : queries_) {
    std::mt19937 random(seed + static_cast<unsigned>(1000 + 17 * at[1] + at[2]));
    queries = cloud(random, queries.rows(), static_cast<int>(queries.cols()), -5, 1);
  }
}

RowMatrixF FakeRecording::keys(int run, int layer, int kv_head, std::int64_t first,
                               std::int64_t count) const {
  return rows_of(keys_.at({run, layer, kv_head}), first, count);
}

RowMatrixF FakeRecording::queries(int run, int layer, int query_head, std::int64_t first,
                                  std::int64_t count) const {
  return rows_of(queries_.at({run, layer, query_head}), first, count);
}

// Any values do: the keys themselves.
RowMatrixF FakeRecording::values(int run, int layer, int kv_head, std::int64_t first,
                                 std::int64_t count) const {
  return keys(run, layer, kv_head, first, count);
}

recording::HeadTrace FakeRecording::trace(int run, int layer, int kv_head) const {
  recording::HeadTrace trace;
  trace.evicted_at = evicted_at_.at({run, layer, kv_head});
  // Attention falls off with position, unevenly; every later token is a query.
  const auto n = static_cast<int>(trace.evicted_at.size());
  for (int i = 0; i < n; ++i) {
    trace.attention_received.push_back((1 + (i * 7 + kv_head) % 5) / (1.0 + i));
    trace.attention_queries.push_back(n - i);
  }
  return trace;
}

RowMatrixF FakeRecording::attention(int run, int layer, int query_head, std::int64_t first,
                                    std::int64_t count) const {
  return rows_of(attention_.at({run, layer, query_head}), first, count);
}

RowMatrixF FakeRecording::logits(int) const { return {}; }

FakeRecording one_eviction() {
  FakeRecording recording(1, 2, 1, 1, 4, 2);
  recording.add_run("keydiff", 1);
  recording.keys_of(0, 0, 0) << std::log(3.0F), 0, 0, 0;
  recording.queries_of(0, 0, 1).setOnes();
  recording.evicted_at(0, 0, 0) = {-1, 0, -1, -1};
  return recording;
}

}  // namespace keyscope::figures
