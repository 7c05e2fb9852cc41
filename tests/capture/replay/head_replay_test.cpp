// What a replay retains, against captures of the same policies and against plain sorting.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "tests/support/captured.hpp"

namespace keyscope::replay {
namespace {

using recording::HeadTrace;
using recording::Recording;

// Every policy that reads no attention, with all of its options.
const std::vector<std::string> kAttentionFree = {"keydiff",
                                                 "keydiff:anchor=normalized-mean",
                                                 "keydiff:anchor=median",
                                                 "keydiff:anchor=pairwise",
                                                 "keydiff:metric=dot",
                                                 "keydiff:metric=euclidean",
                                                 "keydiff:recent=0.2",
                                                 "sink",
                                                 "sink:first=1",
                                                 "l2norm",
                                                 "l2norm:skip=1",
                                                 "random",
                                                 "random:seed=9",
                                                 "manifold",
                                                 "cur",
                                                 "cur:window=8,sinks=2",
                                                 "lagkv",
                                                 "lagkv:sinks=1,lag=4",
                                                 "leverage",
                                                 "logdet",
                                                 "logdet:ridge=0.5",
                                                 "keydiff:protect=sinks:2+recent:0.2",
                                                 "l2norm:protect=boundaries:0.5,skip=0",
                                                 "keydiff:granularity=layer",
                                                 "manifold:protect=recent:3,granularity=layer",
                                                 "keydiff:granularity=page:1",
                                                 "keydiff:split=adakv",
                                                 "l2norm:protect=sinks:2,split=adakv"};

//   tolerance: of margins, relative
void expect_same_evictions(const HeadTrace& expected, const HeadTrace& found, const std::string& where,
                           float tolerance = 0) {
  ASSERT_EQ(expected.evicted_at, found.evicted_at) << where;
  for (std::size_t i = 0; i < expected.evicted_margin.size(); ++i) {
    const float x = expected.evicted_margin[i], y = found.evicted_margin[i];
    ASSERT_TRUE(std::abs(x - y) <= tolerance * std::abs(x) || (std::isnan(x) && std::isnan(y)))
        << where << " token " << i << ": " << x << " " << y;
  }
}

TEST(HeadReplay, TheListNamesEveryPolicyThatReadsNoAttention) {
  std::set<std::string> listed, registered;
  for (const auto& text : kAttentionFree) listed.insert(analysis::parse_policy(text).name);
  for (const auto& entry : analysis::registered_policies()) {
    if (!entry.required.empty()) continue;  // what their files say is of one model
    const auto policy = analysis::make_policy({entry.name, {}}, 0);
    if (policy != nullptr && !policy->needs().attention()) registered.insert(entry.name);
  }
  EXPECT_EQ(listed, registered);
}

struct Cache {
  std::int64_t budget, block_size;
  int window = 0;  // sliding, of all layers
};

std::shared_ptr<const capture::Model> windowed_model(int window) {
  test::RandomModel model;
  model.config["model_type"] = "mistral";
  model.config["architectures"] = {"MistralForCausalLM"};
  model.config["sliding_window"] = window > 0 ? nlohmann::ordered_json(window) : nlohmann::ordered_json();
  return capture::Model::load(model.save(), {});
}

class InLayerZero : public ::testing::TestWithParam<Cache> {};

// One capture of everything: its `none` run is what is replayed, its other runs are what must come out.
TEST_P(InLayerZero, RetainsWhatACaptureRetains) {
  const test::ScratchFolder folder;
  capture::CaptureOptions options = test::full_cache_options();
  for (const auto& spec : test::policies(kAttentionFree)) options.policies.push_back(spec);
  options.budget = GetParam().budget;
  options.block_size = GetParam().block_size;
  options.seed = 3;
  const auto model = windowed_model(GetParam().window);
  const std::string source = test::capture_to(folder.file("captured.h5"), options, *model);
  const auto captured = recording::open_recording(source);

  ReplayOptions again = test::replay_options(kAttentionFree);
  again.budget = GetParam().budget;
  again.block_size = GetParam().block_size;
  again.seed = 3;
  const auto replayed = test::replay_to(folder.file("replayed.h5"), source, again);
  const auto expected = captured->info(), found = replayed->info();
  ASSERT_EQ(found->runs.size(), kAttentionFree.size() + 1);
  for (std::size_t run = 1; run < found->runs.size(); ++run) {
    const auto& plan = found->runs[run].plan;
    EXPECT_EQ(plan.name, expected->runs[run].plan.name);
    EXPECT_EQ(plan.parameters, expected->runs[run].plan.parameters);
    EXPECT_EQ(found->runs[run].block_start, expected->runs[run].block_start);
    EXPECT_TRUE(plan.replayed);
    EXPECT_FALSE(plan.oracle);
    // A draw and a position are what they are in every layer.
    const bool everywhere = plan.policy == "random" || plan.policy == "sink";
    for (int layer = 0; layer < (everywhere ? found->model.n_layers : 1); ++layer)
      for (int head = 0; head < found->model.n_kv_heads; ++head)
        expect_same_evictions(captured->trace(static_cast<int>(run), layer, head),
                              replayed->trace(static_cast<int>(run), layer, head),
                              fmt::format("{} {} layer {}", plan.name, plan.parameters, layer));
  }
}

INSTANTIATE_TEST_SUITE_P(Caches, InLayerZero,
                         ::testing::Values(Cache{12, 16}, Cache{12, 7}, Cache{5, 1}, Cache{20, 50},
                                           Cache{1, 9}, Cache{50, 16}, Cache{64, 8}, Cache{6, 4, 11},
                                           Cache{8, 16, 11}, Cache{20, 7, 11}, Cache{3, 1, 5}),
                         [](const auto& test) {
                           return fmt::format("N{}_B{}_W{}", test.param.budget, test.param.block_size,
                                              test.param.window);
                         });

TEST(HeadReplay, PagesAreThoseOfACapture) {
  const test::ScratchFolder folder;
  const std::vector<std::string> policies{"keydiff:granularity=page:4",
                                          "keydiff:protect=sinks:2+recent:3,granularity=page:8",
                                          "h2o:granularity=page:4"};
  for (const int window : {0, 11}) {
    const auto model = windowed_model(window);
    capture::CaptureOptions options = test::full_cache_options();
    for (const auto& spec : test::policies(policies)) options.policies.push_back(spec);
    options.budget = 14;
    options.block_size = 7;
    const std::string source =
        test::capture_to(folder.file(fmt::format("captured-{}.h5", window)), options, *model);
    ReplayOptions again = test::replay_options({policies[0], policies[1]});
    again.budget = 14;
    again.block_size = 7;
    const auto replayed = test::replay_to(folder.file(fmt::format("replayed-{}.h5", window)), source, again);
    const auto captured = recording::open_recording(source);
    for (int run = 1; run <= 2; ++run)
      for (int head = 0; head < 2; ++head)
        expect_same_evictions(captured->trace(run, 0, head), replayed->trace(run, 0, head),
                              policies[run - 1]);
  }
}

// Above a window, too; scores below 0, forced rows, one set of all heads, and rows that are dealt among them.
TEST(HeadReplay, ValuesThatWeighAreThoseOfACapture) {
  const test::ScratchFolder folder;
  std::vector<std::string> policies;
  for (const char* scorer :
       {"keydiff:", "l2norm:", "lagkv:", "expected:", "keydiff:granularity=layer,",
        "keydiff:granularity=page:4,", "keydiff:split=adakv,", "l2norm:split=adakv,",
        "rkv:protect=sinks:2+recent:3,split=adakv,", "keydiff:protect=sinks:2,granularity=layer,"})
    for (const char* critical : {"critical=on", "critical=shift"})
      policies.push_back(std::string(scorer) + critical);
  for (const int window : {0, 11}) {
    const auto model = windowed_model(window);
    capture::CaptureOptions options = test::full_cache_options();
    options.record_value_norms = true;
    for (const auto& spec : test::policies(policies)) options.policies.push_back(spec);
    options.budget = 8;  // below the window
    options.block_size = 7;
    const std::string source =
        test::capture_to(folder.file(fmt::format("captured-{}.h5", window)), options, *model);
    ReplayOptions again = test::replay_options(policies);
    again.budget = 8;
    again.block_size = 7;
    const auto replayed = test::replay_to(folder.file(fmt::format("replayed-{}.h5", window)), source, again);
    const auto captured = recording::open_recording(source);
    int n_other = 0;  // than without norms: `on` and `shift` are not the same either
    for (int run = 1; run <= std::ssize(policies); ++run)
      for (int head = 0; head < 2; ++head) {
        // A capture ranks by norms in float64, and margins are differences of products with them.
        expect_same_evictions(captured->trace(run, 0, head), replayed->trace(run, 0, head), policies[run - 1],
                              1e-4F);
        if (run % 2 == 0)
          n_other += captured->trace(run, 0, head).evicted_at != captured->trace(run - 1, 0, head).evicted_at;
      }
    EXPECT_GT(n_other, 4);
  }
}

// The blocks of the source run have nothing to do with those of the replay.
TEST(HeadReplay, BlocksNeedNotBeThoseOfTheSource) {
  const test::ScratchFolder folder;
  capture::CaptureOptions options = test::full_cache_options();
  const std::string source = test::capture_to(folder.file("none.h5"), options);
  options.policies = test::policies({"keydiff"});
  options.budget = 12;
  options.block_size = 7;
  const auto captured = recording::open_recording(test::capture_to(folder.file("keydiff.h5"), options));
  ReplayOptions again = test::replay_options({"keydiff"});
  again.block_size = 7;
  const auto replayed = test::replay_to(folder.file("replayed.h5"), source, again);
  for (int head = 0; head < 2; ++head)
    EXPECT_EQ(replayed->trace(1, 0, head).evicted_at, captured->trace(0, 0, head).evicted_at);
}

// Scores by token, once and for all; `n_recent` rows are kept whatever they score.
std::vector<std::int32_t> sort_out(const std::vector<double>& scores, std::int64_t budget, std::int64_t block,
                                   std::int64_t n_recent) {
  std::vector<std::int32_t> evicted_at(scores.size(), -1), present;
  const auto n = static_cast<std::int64_t>(scores.size());
  for (std::int64_t start = 0, b = 0; start < n; start += block, ++b) {
    for (std::int64_t i = start; i < std::min(n, start + block); ++i)
      present.push_back(static_cast<std::int32_t>(i));
    const auto n_present = static_cast<std::int64_t>(present.size());
    if (n_present <= budget) continue;
    std::vector<std::int32_t> order = present;
    std::stable_sort(order.begin(), order.end() - std::min(n_recent, budget),
                     [&](auto i, auto j) { return scores[i] > scores[j]; });
    std::rotate(order.begin(), order.end() - std::min(n_recent, budget), order.end());
    for (auto i = order.begin() + budget; i != order.end(); ++i)
      evicted_at[*i] = static_cast<std::int32_t>(b);
    order.resize(budget);
    std::sort(order.begin(), order.end());
    present = order;
  }
  return evicted_at;
}

class Oracle : public ::testing::Test {
 protected:
  void SetUp() override {
    capture::CaptureOptions options = test::full_cache_options();
    options.record_attention = true;
    source_ = test::capture_to(folder_.file("none.h5"), options);
    captured_ = recording::open_recording(source_);
  }

  std::shared_ptr<Recording> replay(const std::string& policy) {
    ReplayOptions options = test::replay_options({policy});
    options.block_size = 7;
    return test::replay_to(folder_.file("replayed.h5"), source_, options);
  }

  void expect_oracle(const Recording& replayed, const std::string& statistic) {
    const auto& plan = replayed.info()->runs[1].plan;
    EXPECT_TRUE(plan.replayed);
    EXPECT_TRUE(plan.oracle);
    EXPECT_NE(plan.parameters.find("\"oracle\":\"" + statistic + "\""), std::string::npos) << plan.parameters;
  }

  // Weights that query head `head` of a layer gave from token `query` to every token.
  std::vector<double> row(int layer, int head, std::int64_t query) const {
    const RowMatrixF weights = captured_->attention(0, layer, head, query, 1);
    return {weights.data(), weights.data() + weights.size()};
  }

  test::ScratchFolder folder_;
  std::string source_;
  std::shared_ptr<Recording> captured_;
};

TEST_F(Oracle, TovaScoresByTheLastPromptQuery) {
  const auto replayed = replay("tova");
  expect_oracle(*replayed, "attention_last");
  for (int layer = 0; layer < 2; ++layer)
    for (int head = 0; head < 2; ++head) {
      const auto last = captured_->trace(0, layer, head).attention_last;
      EXPECT_EQ(replayed->trace(1, layer, head).evicted_at, sort_out({last.begin(), last.end()}, 12, 7, 0));
    }
}

TEST_F(Oracle, TovaOverAllHeadsKeepsOneSetPerLayer) {
  const auto replayed = replay("tova:heads=all");
  expect_oracle(*replayed, "attention_last");
  for (int layer = 0; layer < 2; ++layer) {
    std::vector<double> mean(50, 0);
    for (int head = 0; head < 4; ++head) {
      const auto weights = row(layer, head, 49);
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += weights[i] / 4;
    }
    for (int head = 0; head < 2; ++head)
      EXPECT_EQ(replayed->trace(1, layer, head).evicted_at, sort_out(mean, 12, 7, 0)) << "layer " << layer;
  }
}

TEST_F(Oracle, H2oScoresByAllPromptQueries) {
  const auto replayed = replay("h2o:recent=0.5,normalize=1");
  expect_oracle(*replayed, "attention_received");
  for (int layer = 0; layer < 2; ++layer)
    for (int head = 0; head < 2; ++head) {
      const auto trace = captured_->trace(0, layer, head);
      std::vector<double> scores;
      for (std::size_t i = 0; i < 50; ++i)
        scores.push_back(trace.attention_received[i] / static_cast<double>(50 - i));
      EXPECT_EQ(replayed->trace(1, layer, head).evicted_at, sort_out(scores, 12, 7, 6));
    }
}

// Pooled over the rows that are present, which change: without pooling, a score is a token's own.
TEST_F(Oracle, SnapKvScoresByTheLastQueriesOfThePrompt) {
  const auto replayed = replay("snapkv:window=20,kernel=1,recent=3");
  expect_oracle(*replayed, "attention");
  for (int layer = 0; layer < 2; ++layer)
    for (int kv_head = 0; kv_head < 2; ++kv_head) {
      std::vector<double> sums(50, 0);
      for (int head = 2 * kv_head; head < 2 * kv_head + 2; ++head)
        for (std::int64_t query = 30; query < 50; ++query) {
          const auto weights = row(layer, head, query);
          for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += weights[i] / 2;
        }
      EXPECT_EQ(replayed->trace(1, layer, kv_head).evicted_at, sort_out(sums, 12, 7, 3));
    }
}

TEST_F(Oracle, ALargerWindowThanThePromptIsThePrompt) {
  const auto replayed = replay("snapkv:window=1000,kernel=1,recent=0");
  for (int head = 0; head < 2; ++head)
    EXPECT_EQ(replayed->trace(1, 0, head).evicted_at,
              sort_out(captured_->trace(0, 0, head).attention_received, 12, 7, 0));
}

}  // namespace
}  // namespace keyscope::replay
