// What must hold whatever the weights are: block sizes, budgets and the memory of the cache.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/capture/inference/arithmetics.hpp"
#include "tests/support/captured.hpp"
#include "tests/support/random_model.hpp"

namespace keyscope::capture {
namespace {

class Schedule : public ::testing::TestWithParam<Arithmetic> {
 protected:
  void SetUp() override {
    model_ = Model::load(folder_.save(), test::model_options(GetParam()));
    options_.prompt_ids = test::random_ids(70, 50);
    options_.policies = test::policies({"none"});
    options_.generate = 4;
    options_.ignore_eos = true;
  }

  // Largest difference of keys and of attention received, over all heads and tokens.
  static double difference(const test::Captured& a, const test::Captured& b) {
    double largest = 0;
    for (int layer = 0; layer < 2; ++layer)
      for (int head = 0; head < 2; ++head) {
        const RowMatrixF keys = a.recording->keys(0, layer, head) - b.recording->keys(0, layer, head);
        largest = std::max<double>(largest, keys.cwiseAbs().maxCoeff());
        const auto x = a.recording->trace(0, layer, head), y = b.recording->trace(0, layer, head);
        for (std::size_t i = 0; i < x.attention_received.size(); ++i)
          largest = std::max(largest, std::abs(x.attention_received[i] - y.attention_received[i]));
      }
    return largest;
  }

  test::RandomModel folder_;
  std::shared_ptr<const Model> model_;
  CaptureOptions options_;
};

TEST_P(Schedule, WithoutEvictionTheBlockSizeChangesNothing) {
  options_.block_size = 70;
  const auto whole = test::run_in_memory(*model_, options_);
  for (const std::int64_t block_size : {1, 3, 16, 69, 1000}) {
    options_.block_size = block_size;
    const auto in_blocks = test::run_in_memory(*model_, options_);
    EXPECT_EQ(in_blocks.outcomes[0].generated, whole.outcomes[0].generated) << block_size;
    EXPECT_LT(difference(in_blocks, whole), 3e-5) << block_size;
  }
}

TEST_P(Schedule, ABudgetThatNothingExceedsEvictsNothing) {
  const auto full = test::run_in_memory(*model_, options_);
  for (const char* policy :
       {"keydiff", "sink", "l2norm", "tova", "h2o", "snapkv", "random", "cur", "logdet"}) {
    options_.policies = test::policies({policy});
    options_.budget = 73;
    const auto run = test::run_in_memory(*model_, options_);
    EXPECT_EQ(run.outcomes[0].generated, full.outcomes[0].generated) << policy;
    EXPECT_EQ(difference(run, full), 0) << policy;
    const auto trace = run.recording->trace(0, 1, 0);
    EXPECT_TRUE(std::all_of(trace.evicted_at.begin(), trace.evicted_at.end(), [](int at) { return at < 0; }));
  }
}

TEST_P(Schedule, NoHeadEverHoldsMoreThanTheBudgetAndOneBlock) {
  for (const char* policy : {"keydiff", "sink", "l2norm", "tova", "h2o", "snapkv", "random", "cur", "logdet"})
    for (const auto& [budget, block_size] : {std::pair{16, 8}, {5, 1}, {1, 7}, {30, 64}}) {
      options_.policies = test::policies({policy});
      options_.budget = budget;
      options_.block_size = block_size;
      const auto run = test::run_in_memory(*model_, options_);
      EXPECT_LE(run.outcomes[0].peak_cache_rows, std::min(budget + block_size, 70)) << policy;
      const auto info = run.recording->info();
      for (std::int64_t block = 0; block < info->runs[0].blocks_done; ++block) {
        const std::int64_t seen = recording::tokens_seen(info->runs[0], block);
        const auto trace = run.recording->trace(0, 1, 1);
        EXPECT_EQ(
            static_cast<std::int64_t>(recording::retained_positions(trace.evicted_at, seen, block).size()),
            std::min<std::int64_t>(seen, budget))
            << policy << ", block " << block;
      }
    }
}

TEST_P(Schedule, AttentionReceivedIsOneForEveryPromptQuery) {
  options_.policies = test::policies({"keydiff"});
  options_.budget = 16;
  options_.block_size = 8;
  const auto run = test::run_in_memory(*model_, options_);
  for (int layer = 0; layer < 2; ++layer)
    for (int head = 0; head < 2; ++head) {
      const auto trace = run.recording->trace(0, layer, head);
      double sum = 0, last = 0;
      for (const double received : trace.attention_received) sum += received;
      for (const float weight : trace.attention_last) last += weight;
      EXPECT_NEAR(sum, 70, 1e-4);
      EXPECT_NEAR(last, 1, 1e-5);
      EXPECT_EQ(trace.attention_received.back(), 0) << "a generated token's queries do not count";
    }
}

// What is recorded of some heads is what a recording of all has of them, whichever way blocks go.
TEST_P(Schedule, RecordingSomeHeadsChangesNothingElse) {
  options_.policies = test::policies({"none", "keydiff"});
  options_.budget = 16;
  options_.block_size = 8;
  options_.record_values = true;
  using capture::Schedule;
  for (const auto& [schedule, attention] :
       std::vector<std::pair<Schedule, bool>>{{Schedule::kBlock, true},
                                              {Schedule::kBlock, false},
                                              {Schedule::kLayer, true},
                                              {Schedule::kLayer, false}}) {
    options_.schedule = schedule;
    options_.record_attention = attention;
    options_.heads = {};
    const auto all = test::run_in_memory(*model_, options_).recording;
    options_.heads = {1};
    const auto one = test::run_in_memory(*model_, options_).recording;
    const int group = all->info()->model.group_size(0);
    for (int run = 0; run < 2; ++run)
      for (int layer = 0; layer < 2; ++layer) {
        EXPECT_EQ(one->keys(run, layer, 1), all->keys(run, layer, 1));
        EXPECT_EQ(one->values(run, layer, 1), all->values(run, layer, 1));
        for (int head = group; head < 2 * group; ++head) {
          EXPECT_EQ(one->queries(run, layer, head), all->queries(run, layer, head));
          if (attention) {
            EXPECT_EQ(one->attention(run, layer, head), all->attention(run, layer, head));
          }
        }
        for (int head = 0; head < 2; ++head) {
          const auto found = one->trace(run, layer, head), expected = all->trace(run, layer, head);
          EXPECT_EQ(found.evicted_at, expected.evicted_at);
          EXPECT_EQ(found.attention_received, expected.attention_received);
        }
        EXPECT_EQ(one->statistics(run, layer).gini, all->statistics(run, layer).gini);
      }
    EXPECT_THROW(one->keys(0, 0, 0), FileError);
  }
}

TEST_P(Schedule, TheSameSeedGivesTheSameRun) {
  options_.policies = test::policies({"random"});
  options_.budget = 9;
  options_.block_size = 8;
  const auto evicted = [&](std::uint64_t seed) {
    options_.seed = seed;
    return test::run_in_memory(*model_, options_).recording->trace(0, 0, 0).evicted_at;
  };
  EXPECT_EQ(evicted(1), evicted(1));
  EXPECT_NE(evicted(1), evicted(2));
}

// A cache of N + B rows, whatever the prompt: 1K, 4K and 16K tokens with N = 256 and B = 64.
TEST_P(Schedule, KeepsTheCacheFlatWhileThePromptGrows) {
  const test::RandomModel folder({.n_layers = 1,
                                  .n_heads = 2,
                                  .n_kv_heads = 1,
                                  .hidden_size = 16,
                                  .intermediate_size = 16,
                                  .max_positions = 20000});
  const auto model = Model::load(folder.save(), test::model_options(GetParam()));
  CaptureOptions options;
  options.policies = test::policies({"keydiff"});
  options.budget = 256;
  options.block_size = 64;
  options.record_keys = options.record_queries = false;
  for (const std::int64_t n : {1024, 4096, 16384}) {
    options.prompt_ids = test::random_ids(n, 50);
    const auto outcome = test::run_in_memory(*model, options).outcomes[0];
    EXPECT_EQ(outcome.peak_cache_rows, 256 + 64) << n;
    EXPECT_EQ(outcome.peak_cache_bytes, (256 + 64) * (2 * 8 * 4 + 16)) << n;
  }
}

// Heads that are dealt the rows of their layer take the memory of as many heads of N rows, though one of them
// holds far more; that much is what an estimate says.
TEST_P(Schedule, HeadsThatAreDealtRowsTakeNoMoreMemoryThanHeadsOfNRows) {
  const test::RandomModel folder({.n_heads = 8, .n_kv_heads = 8, .hidden_size = 32});
  const auto model = Model::load(folder.save(), test::model_options(GetParam()));
  CaptureOptions options = options_;
  options.prompt_ids = test::random_ids(300, 50);
  options.budget = 75;
  options.block_size = 16;
  options.generate = 40;
  for (const char* policy : {"keydiff:", "l2norm:", "snapkv:window=4,", "keydiff:critical=on,"}) {
    const auto split = [&](const char* how) {
      return test::policies({std::string(policy) + "split=" + how});
    };
    options.policies = split("uniform");
    const std::int64_t uniform = test::run_in_memory(*model, options).outcomes[0].peak_cache_bytes;
    EXPECT_EQ(uniform, 2 * 8 * (75 + 16) * (2 * 8 * 4 + 16)) << policy;
    options.policies = split("adakv");
    const auto estimate = estimate_capture(*model, plan_capture(*model, options));
    const auto run = test::run_in_memory(*model, options);
    EXPECT_EQ(run.outcomes[0].peak_cache_bytes, uniform) << policy;
    EXPECT_EQ(estimate.cache_bytes, uniform) << policy;
    EXPECT_GT(run.outcomes[0].peak_cache_rows, 75 + 16) << policy;
    for (int layer = 0; layer < 2; ++layer) {
      std::vector<std::int64_t> held;
      for (int head = 0; head < 8; ++head) {
        const auto evicted_at = run.recording->trace(0, layer, head).evicted_at;
        held.push_back(std::ranges::count(evicted_at, -1));
      }
      EXPECT_EQ(std::reduce(held.begin(), held.end()), 8 * 75) << policy;
      EXPECT_GE(std::ranges::max(held), std::ranges::min(held) + 10) << policy;
    }
  }
}

// Beside plain loops over recorded values and the columns of W_O that a query head's output meets; of every
// token, fed back or not, whatever becomes of its row.
TEST_P(Schedule, RecordedNormsAreThoseOfTheOutputProjection) {
  options_.policies = test::policies({"none", "keydiff:critical=on"});
  options_.budget = 12;
  options_.block_size = 9;
  options_.record_values = options_.record_value_norms = true;
  const auto run = test::run_in_memory(*model_, options_);
  EXPECT_TRUE(run.recording->info()->value_norms);
  for (int layer = 0; layer < 2; ++layer) {
    const auto& stored =
        folder_.tensors.at("model.layers." + std::to_string(layer) + ".self_attn.o_proj.weight");
    ASSERT_EQ(stored.dtype, "F32");
    std::vector<float> projection(stored.bytes.size() / sizeof(float));
    std::memcpy(projection.data(), stored.bytes.data(), stored.bytes.size());
    const std::int64_t d = 8, wide = 4 * d, hidden = std::ssize(projection) / wide;
    for (int of = 0; of < 2; ++of)
      for (int head = 0; head < 2; ++head) {
        const RowMatrixF values = run.recording->values(of, layer, head);
        const auto norms = run.recording->trace(of, layer, head).value_norms;
        ASSERT_EQ(std::ssize(norms), values.rows());
        for (Eigen::Index token = 0; token < values.rows(); ++token) {
          double sum = 0;
          for (int query = 2 * head; query < 2 * head + 2; ++query)
            for (std::int64_t out = 0; out < hidden; ++out) {
              double element = 0;
              for (std::int64_t i = 0; i < d; ++i)
                element += double{projection[out * wide + query * d + i]} * values(token, i);
              sum += std::abs(element);
            }
          EXPECT_NEAR(norms[token], sum / 2, 1e-5 * sum) << layer << " " << head << " " << token;
        }
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Arithmetics, Schedule, test::both_arithmetics(), test::arithmetic_name);

}  // namespace
}  // namespace keyscope::capture
